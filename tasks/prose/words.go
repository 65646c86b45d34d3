package prose

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"descartes/internal/lazyregexp"
)

// A table of words that people use in plans: English, German, French, Spanish, Portuguese, Russian, Chinese, Japanese
// and Korean. What is added here is read everywhere.

// numberedWords are what numbers follow in headings and references, each with those that mean the same.
var numberedWords = map[string][]string{
	"task":    {"task", "aufgabe", "tâche", "tarea", "tarefa", "задача", "任务", "任務", "タスク", "작업", "태스크"},
	"subtask": {"subtask", "sub-task", "teilaufgabe", "sous-tâche", "subtarea", "subtarefa", "подзадача", "子任务"},
	"item":    {"item", "story"},
	"phase": {"phase", "fase", "этап", "фаза", "阶段", "階段", "フェーズ", "フェイズ", "단계",
		"페이즈"},
	"milestone": {"milestone", "meilenstein", "jalon", "hito", "marco", "веха", "里程碑", "マイルストーン", "마일스톤"},
	"stage":     {"stage", "étape", "etapa"},
	"sprint":    {"sprint", "спринт", "スプリント", "스프린트"},
	"iteration": {"iteration", "itération", "iteración", "iteração", "итерация", "迭代"},
	"part":      {"part", "teil", "partie", "parte", "часть", "部分"},
	"wave":      {"wave", "welle", "vague", "ola", "onda", "волна"},
	"step":      {"step", "schritt", "paso", "passo", "шаг", "步", "步骤", "步驟", "ステップ", "手順", "스텝"},
	"week":      {"week", "woche", "semaine", "semana", "неделя", "周", "週", "주차"},
	"day":       {"day", "tag", "jour", "día", "dia", "день"},
}

// PhaseWords are the words for parts of a plan that follow each other, the largest first.
var PhaseWords = []string{"phase", "milestone", "stage", "sprint", "iteration", "part", "wave", "step", "week", "day"}

// canonical is the English word for one of the table.
var canonical = invert(numberedWords)

func invert(table map[string][]string) map[string]string {
	words := map[string]string{}
	for word, same := range table {
		for _, s := range same {
			words[s] = word
		}
	}
	return words
}

// anyOf is an expression for the words of a table, or for those of some of its rows. The longest come first, so that
// none hides another.
func anyOf(table map[string][]string, rows ...string) string {
	var all []string
	for row, same := range table {
		if len(rows) == 0 || slices.Contains(rows, row) {
			for _, s := range same {
				all = append(all, regexp.QuoteMeta(s))
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return strings.Join(all, "|")
}

// labels are what stands before a colon, or at the head of a column.
var labels = map[string][]string{
	"depends": {"dependencies", "dependency", "depends on", "depends", "depends-on", "deps", "blocked by",
		"abhängigkeiten", "abhängig von", "hängt ab von", "dépendances", "dépend de", "dependencias", "depende de",
		"dependências", "зависимости", "зависит от", "依赖", "依赖项", "依赖关系", "前置任务", "依賴", "依存", "依存関係",
		"의존성", "선행 작업"},
	"after": {"prerequisites", "after", "needs"}, // only at the head of a column
	"status": {"status", "state", "done", "statut", "état", "estado", "статус", "состояние", "状态", "狀態", "ステータス",
		"状態", "상태"},
	"priority": {"priority", "prio", "priorität", "priorité", "prioridad", "prioridade", "приоритет", "优先级", "優先度",
		"우선순위"},
	"title": {"title", "task", "tasks", "name", "task name", "work item", "item", "story", "sub-task", "subtask", "titel", "aufgabe", "titre",
		"tâche", "título", "tarea", "tarefa", "задача", "название", "任务", "标题", "名称", "タスク", "作業", "작업"},
	"text": {"description", "summary", "details", "beschreibung", "descripción", "descrição", "описание", "描述", "说明",
		"説明", "설명", "内容", "내용", "o quê", "o que"},
	"criteria": {"acceptance", "acceptance criteria"},                                  // only at the head of a column
	"verify":   {"verify"},                                                             // likewise
	"place":    {"phase", "step", "fase", "paso", "schritt", "etapa", "étape", "этап"}, // where there is no id
	"id": {"id", "#", "№", "n°", "nº", "no", "no.", "nr", "nr.", "number", "task id", "task #", "task no", "task no.",
		"issue", "ticket", "key", "номер", "序号", "编号", "番号", "번호"},
}

var labelOf = invert(labels)

// Label is what a label or the head of a column means: "depends", "status", "priority", "title", "text", "id", or "".
func Label(s string) string { return labelOf[Fold(strings.Trim(s, "*_`：:"))] }

// statusWords are words for a status in other languages, and others than the task formats have.
var statusWords = map[string][]string{
	"done": {"done", "complete", "completed", "finished", "implemented", "shipped", "merged", "closed", "fixed", "addressed", "solved", "delivered", "released", "erledigt",
		"fertig", "abgeschlossen", "resolved", "cerrado", "cerrada", "terminé", "terminée", "fait", "completado", "completada", "hecho", "hecha",
		"terminado", "concluído", "concluída", "concluido", "feito", "готово", "выполнено", "завершено", "сделано",
		"已完成", "已具备", "完成", "完了", "完了済み", "済", "완료", "완료됨"},
	"in-progress": {"in progress", "in-progress", "in_progress", "in arbeit", "begonnen", "en cours", "en progreso", "en curso", "em andamento", "в работе",
		"в процессе", "进行中", "進行中", "作業中", "진행 중", "진행중", "wip"},
	"pending": {"pending", "open", "todo", "to do", "not started", "offen", "à faire", "pendiente", "pendente", "не начато",
		"ожидает", "待开发", "待办", "未开始", "待处理", "未着手", "대기", "예정"},
	"review":    {"review", "in review"},
	"deferred":  {"deferred"},
	"failed":    {"failed"},
	"blocked":   {"blocked", "blockiert", "bloqué", "bloqueado", "заблокировано", "阻塞", "已阻塞", "ブロック中"},
	"cancelled": {"cancelled", "canceled", "abgebrochen", "annulé", "cancelado", "отменено", "已取消", "取消", "中止", "취소"},
}

var statusOf = invert(statusWords)

// Status is the task formats' word for a word of the table, or "". What follows a done word in remarks, as a date, does
// not count.
func Status(s string) string { return statusOf[Fold(strings.Trim(s, "*_✅✓✔☑️ "))] }

// DoneWords is an expression for the words that say that something is done.
var DoneWords = anyOf(statusWords, "done")

// Section is what a heading says about the entries below it.
type Section uint8

// The kinds of sections.
const (
	Unknown    Section = iota
	Work               // a list of tasks
	Background         // no work; boxes there are tasks where nothing else is
	Checklist          // a list of checks, or of tasks where nothing else is
	Aside              // no work, with or without boxes
	Criteria           // what work must pass
)

var sectionWords = map[Section][]string{
	Work: {"plan", "tasks", "task list", "steps", "implementation", "implementation plan", "implementation steps", "todo",
		"to do", "todos", "deliverables", "action items", "work items", "implementation order", "task breakdown",
		"implementation tasks", "remaining tasks", "open tasks", "implementation phases", "nächste schritte", "prochaines étapes", "próximos pasos", "próximos passos",
		"следующие шаги", "下一步", "次のステップ", "다음 단계", "実装順序", "実装手順", "作業手順", "구현 순서", "实施顺序", "开发步骤",
		"aufgaben", "schritte", "umsetzung", "tâches", "étapes", "tareas", "pasos", "tarefas", "passos", "задачи", "шаги",
		"план", "任务", "任务列表", "任务清单", "步骤", "实施步骤", "实现顺序", "计划", "タスク", "タスク一覧", "手順", "作業",
		"작업", "할 일", "작업 목록"},
	Background: {"current status", "status", "progress", "progress tracking", "completed", "进度", "进度追踪", "进度跟踪", "当前状态",
		"现状", "進捗", "現状", "현재 상태", "진행 상황", "overview", "summary", "executive summary", "introduction", "background", "context", "motivation",
		"goals", "problem statement", "desired end state", "desired state", "scope", "testing strategy", "test strategy",
		"testing", "test plan", "testplan", "plan de pruebas", "plano de testes", "план тестирования", "测试计划", "テスト計画",
		"테스트 계획", "manual testing", "manual testing steps", "key discoveries", "key findings", "references",
		"related", "notes", "performance considerations", "security considerations", "table of contents", "contents",
		"appendix", "timeline", "rollback plan", "scud task mapping", "task mapping", "changelog", "requirements",
		"überblick", "übersicht", "zusammenfassung", "ziele", "hintergrund", "anforderungen", "contexte", "résumé",
		"objectifs", "objectif", "ziel", "contexto", "resumen", "objetivo", "objetivos", "resumo", "requisitos", "обзор", "контекст", "цель", "цели", "требования",
		"goal", "objective", "objectives", "observations", "概述", "背景", "目标", "需求", "概要", "目的", "要件", "目標", "개요", "배경", "목표"},
	Aside: {"non-goals", "not on the roadmap", "deliberately not on the roadmap", "rejected", "explicitly rejected", "won't do", "not planned", "current state", "current state analysis", "what exists", "what we're not doing",
		"what we are not doing", "what we’re not doing", "out of scope", "open questions", "risks", "risk assessment",
		"prerequisites", "assumptions", "nicht-ziele", "offene fragen", "risiken", "voraussetzungen", "hors périmètre",
		"risques", "prérequis", "fuera de alcance", "riesgos", "fora de escopo", "riscos", "вне рамок", "риски",
		"非目标", "范围外", "风险", "前提条件", "スコープ外", "リスク", "범위 외", "위험"},
	Criteria: {"legend", "status legend", "图例", "凡例", "범례", "легенда", // no work either, and nothing to say of it
		"automated verification", "manual verification", "verification", "definition of done", "done when",
		"success metrics", "validation", "abnahmekriterien", "akzeptanzkriterien", "erfolgskriterien", "kriterien",
		"critères d'acceptation", "critères de succès", "critères", "criterios de aceptación", "criterios de éxito",
		"criterios", "critérios de aceitação", "critérios de sucesso", "critérios", "критерии приёмки",
		"критерии приемки", "критерии готовности", "критерии", "验收清单", "验收标准", "验证标准", "完成标准", "成功标准", "验收",
		"验收条件", "受け入れ基準", "受入基準", "完了条件", "成功基準", "検証", "수용 기준", "인수 조건", "완료 조건", "검증"},
}

var sectionOf = func() map[string]Section {
	all := map[string]Section{}
	for _, kind := range slices.Sorted(maps.Keys(sectionWords)) {
		for _, s := range sectionWords[kind] {
			all[s] = kind
		}
	}
	return all
}()

// criteria are the last words of a heading over such, or those before what they are about.
var criteria = lazyregexp.New(`criteri(?:a|on)(?: (?:for|of) .*)?$|^(?:.* )?(?:status )?legend$|(?:완료|성공|수락) ?기준$|(?:验收|完成)标准$|(?:完了条件|受け入れ基準)$`)

// Finished reports whether a folded heading stands over what was done.
func Finished(heading string) bool { return finished.MatchString(heading) }

var finished = lazyregexp.New(`^(?:✅ *)?(?:(?:already )?(?:completed|done|finished|shipped|implemented|erledigt|terminé|completado|implementado|hecho|concluído|feito|выполнено|готово)(?: (?:in|on|since|by|\(|tasks?|work|items?|features?|(?:phase|milestone|sprint|stage|release|version)s?\b)|$| ?[:—–-])|已完成|完了した|완료된)`)

// checklist are the last words of a heading over checks.
var checklist = lazyregexp.New(`(?:checklist|checkliste|liste de contrôle|lista de verificación|чек-?лист|检查清单|檢查清單|チェックリスト|체크리스트)$`)

// IsWork reports whether a folded heading or label stands over what is to be done: "main tasks", "work items".
func IsWork(heading string) bool { return SectionOf(heading) == Work || work.MatchString(heading) }

var work = lazyregexp.New(`\b(?:tasks?|work|steps?|to-?dos?|to do|deliverables?|action items|actions|activities|changes|features|items|scope|implementation|aufgaben|schritte|arbeiten|tâches|étapes|travaux|tareas|trabajo|pasos|tarefas|trabalho|passos)\b` +
	`|задач|работ|шаги|工作|任务|任務|步骤|内容|作業|タスク|手順|작업|할 일|단계`)

// SectionOf says what a folded heading stands over.
func SectionOf(heading string) Section {
	heading = strings.TrimLeftFunc(heading, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	short, remark, _ := strings.Cut(strings.ReplaceAll(heading, "（", " ("), " (")
	for _, h := range []string{heading, short, strings.TrimRight(remark, ")）")} {
		if kind, ok := sectionOf[h]; ok {
			return kind
		}
	}
	heading = short
	switch {
	case criteria.MatchString(heading) || strings.HasPrefix(heading, "success criteria") ||
		strings.HasPrefix(heading, "acceptance") || strings.HasPrefix(heading, "checkpoint"):
		return Criteria
	case strings.HasPrefix(heading, "deliverables"):
		return Work
	case strings.HasPrefix(heading, "recently "):
		return Background
	case checklist.MatchString(heading):
		return Checklist
	}
	return Unknown
}
