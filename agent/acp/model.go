package acp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// fullAccess are the words for the mode in which an agent has no sandbox of its own: codex-acp's is "full-access" up to
// 0.16, "agent-full-access" later.
const fullAccess = "full-access"

// chooseMode chooses, unless the program's arguments ask for less, the mode in which what may be touched is up to our
// sandbox and our answers, in every session anew.
//
// That is full access where an agent knows it, as codex with its own command line has it. Codex-acp starts a project's
// first session in "read-only" and, as full access makes it trust the project, all others in "auto", whose sandbox runs
// no command in a plain container or in ours. Claude-agent-acp starts in "auto" too, in which its model refuses tools
// and nobody is asked: in "default" we are.
func (b *conversation) chooseMode(ctx context.Context, session gjson.Result) error {
	current := session.Get("modes.currentModeId").Str
	if strings.Contains(current, fullAccess) || slices.ContainsFunc(b.argv, asksLess) {
		return nil
	}
	modes := session.Get("modes.availableModes.#.id").Array()
	offered := func(fits func(id string) bool) int {
		return slices.IndexFunc(modes, func(id gjson.Result) bool { return fits(id.Str) })
	}
	wanted := offered(func(id string) bool { return strings.Contains(id, fullAccess) })
	switch {
	case wanted >= 0:
	case current == "read-only": // of a version of codex-acp without full access
		wanted = offered(func(id string) bool { return id == "auto" })
	case current == "auto":
		wanted = offered(func(id string) bool { return id == "default" })
	}
	if wanted < 0 {
		return nil
	}
	return b.rpc.call(ctx, "session/set_mode", map[string]any{"sessionId": session.Get("sessionId").Str,
		"modeId": modes[wanted].Str}, &struct{}{})
}

// asksLess reports whether an argument of codex's asks for a sandbox of its own.
func asksLess(arg string) bool {
	return strings.Contains(arg, "read-only") || strings.Contains(arg, "workspace-write")
}

// model is one that an agent offers.
type model struct{ id, name string }

// offered lists models, which may be in groups; key is the member with their ids.
func offered(list gjson.Result, key string) (out []model) {
	for _, m := range list.Array() {
		if group := m.Get("options"); len(group.Array()) > 0 {
			out = append(out, offered(group, key)...)
			continue
		}
		out = append(out, model{m.Get(key).Str, m.Get("name").Str})
	}
	return out
}

// chooseModel asks for the wanted model and returns the one in use, "" where unknown.
func (b *conversation) chooseModel(ctx context.Context, session gjson.Result) (string, error) {
	const choices = "session/set_config_option"
	var list []model
	method, current := "", ""
	params := map[string]any{"sessionId": session.Get("sessionId").Str}
	for _, o := range session.Get("configOptions").Array() { // the setting that chooses the model
		category, id := o.Get("category").Str, o.Get("id").Str
		if method == "" && o.Get("type").Str != "boolean" && (category == "model" || category == "" && id == "model") {
			method, current, list, params["configId"] = choices, o.Get("currentValue").Str,
				offered(o.Get("options"), "value"), id
		}
	}
	if models := session.Get("models"); models.IsObject() {
		method, current, list = "session/set_model", models.Get("currentModelId").Str,
			offered(models.Get("availableModels"), "modelId")
		delete(params, "configId")
	}
	switch {
	case b.model == "":
		return current, nil
	case method == "":
		return "", noModel("its model cannot be chosen here: leave out --model %s, or set it in the agent's own settings", b.model)
	}
	at := slices.IndexFunc(list, func(m model) bool { return m.id == b.model })
	if at < 0 {
		at = slices.IndexFunc(list, func(m model) bool {
			return strings.EqualFold(m.id, b.model) || strings.EqualFold(m.name, b.model)
		})
	}
	if at < 0 {
		return current, noModel("it has no model %q, only %s", b.model, some(list))
	}
	id := list[at].id
	if id == current {
		return current, nil
	}
	if params["modelId"] = id; method == choices {
		delete(params, "modelId")
		params["value"] = id
	}
	if err := b.rpc.call(ctx, method, params, &struct{}{}); err != nil {
		return current, err
	}
	return id, nil
}

func some(list []model) string {
	var ids []string
	for n, m := range list {
		if n == 12 {
			ids = append(ids, fmt.Sprintf("%d more", len(list)-n))
			break
		}
		ids = append(ids, m.id)
	}
	return cmp.Or(strings.Join(ids, ", "), "none")
}

// modelError is a model that is not available.
type modelError struct{ text string }

func (e *modelError) Error() string { return e.text }

func noModel(format string, args ...any) error { return &modelError{fmt.Sprintf(format, args...)} }
