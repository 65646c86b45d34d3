package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// newSession is what is read of the answer to session/new.
type newSession struct {
	SessionID string `json:"sessionId"`
	Models    *struct {
		Current   string `json:"currentModelId"`
		Available []struct {
			ID   string `json:"modelId"`
			Name string `json:"name"`
		} `json:"availableModels"`
	} `json:"models"`
	ConfigOptions []configOption `json:"configOptions"`
	Modes         struct {
		Current   string `json:"currentModeId"`
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
}

// mayWrite leaves a mode in which nothing can be written, codex-acp's first, unless the program's arguments ask for it. Its "auto" has a sandbox of
// its own, in which no command runs in a plain container or in ours: what may be touched is up to the latter, as with codex itself.
func (b *conversation) mayWrite(ctx context.Context, s newSession) error {
	const reads = "read-only"
	if s.Modes.Current != reads || slices.ContainsFunc(b.argv, func(arg string) bool { return strings.Contains(arg, reads) }) {
		return nil
	}
	for _, id := range []string{"full-access", "auto"} {
		for _, m := range s.Modes.Available {
			if m.ID == id {
				return b.rpc.call(ctx, "session/set_mode", map[string]any{"sessionId": s.SessionID, "modeId": id}, &struct{}{})
			}
		}
	}
	return nil
}

// configOption is a setting of a session: a choice among values, which may be
// in groups.
type configOption struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Type     string          `json:"type"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []struct {
		Value   string        `json:"value"`
		Name    string        `json:"name"`
		Options []configValue `json:"options"`
	} `json:"options"`
}

type configValue struct {
	Value string `json:"value"`
	Name  string `json:"name"`
}

func (o configOption) values() (list []configValue) {
	for _, v := range o.Options {
		if len(v.Options) > 0 {
			list = append(list, v.Options...)
			continue
		}
		list = append(list, configValue{v.Value, v.Name})
	}
	return list
}

// modelOption finds the setting that chooses the model.
func (s newSession) modelOption() (configOption, bool) {
	for _, o := range s.ConfigOptions {
		if o.Type != "boolean" && (o.Category == "model" || o.Category == "" && o.ID == "model") {
			return o, true
		}
	}
	return configOption{}, false
}

// chooseModel asks for the wanted model and returns the one in use, "" where unknown.
func (b *conversation) chooseModel(ctx context.Context, s newSession) (string, error) {
	option, isOption := s.modelOption()
	current, offered := "", []configValue(nil)
	switch {
	case s.Models != nil:
		current = s.Models.Current
		for _, m := range s.Models.Available {
			offered = append(offered, configValue{m.ID, m.Name})
		}
	case isOption:
		offered = option.values()
		_ = json.Unmarshal(option.Current, &current) // or not told
	case b.model != "":
		return "", noModel("its model cannot be chosen here: leave out --model %s, or set it in the agent's own settings", b.model)
	}
	if b.model == "" {
		return current, nil
	}
	id, ok := pick(offered, b.model)
	if !ok {
		return current, noModel("it has no model %q, only %s", b.model, some(offered))
	}
	if id == current {
		return current, nil
	}
	method, params := "session/set_config_option", map[string]any{"sessionId": s.SessionID, "configId": option.ID, "value": id}
	if s.Models != nil {
		method, params = "session/set_model", map[string]any{"sessionId": s.SessionID, "modelId": id}
	}
	if err := b.rpc.call(ctx, method, params, &struct{}{}); err != nil {
		return current, err
	}
	return id, nil
}

// pick finds a model by its id or its display name.
func pick(offered []configValue, want string) (string, bool) {
	for _, m := range offered {
		if m.Value == want {
			return m.Value, true
		}
	}
	for _, m := range offered {
		if strings.EqualFold(m.Value, want) || strings.EqualFold(m.Name, want) {
			return m.Value, true
		}
	}
	return "", false
}

func some(offered []configValue) string {
	var ids []string
	for n, m := range offered {
		if n == 12 {
			ids = append(ids, fmt.Sprintf("%d more", len(offered)-n))
			break
		}
		ids = append(ids, m.Value)
	}
	return cmp.Or(strings.Join(ids, ", "), "none")
}

// modelError is a model that is not available.
type modelError struct{ text string }

func (e *modelError) Error() string { return e.text }

func noModel(format string, args ...any) error { return &modelError{fmt.Sprintf(format, args...)} }
