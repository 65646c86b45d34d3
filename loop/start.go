package loop

import (
	"descartes/loop/store"
)

// StartOptions say which loop to start or resume.
type StartOptions struct {
	Name      string // "" draws an id
	Command   string // first part of a drawn id
	StatePath string // "": the default one, or the one for Name
	Resume    string // state file of the loop to resume; "" resumes the tag's unfinished one, or starts a new one
	Scope     store.Scope
	Saved     *Config  // the settings to store in the state file; nil: the job's own
	Own       []string // files that may be uncommitted at the start: reports that this call writes
	Session   string   // id from the program that started descartes, or ""
	Branch    string   // made at HEAD before the first attempt; "" for none
	Yes       bool     // a person's answer to the loop's open question
	Anew      bool     // ask the providers, whatever earlier runs recorded about their quotas
}
