package gate

import "descartes/internal/promise"

// Promised reports whether an agent's final message makes the promise word, as package promise says.
func Promised(final, word string) bool { return promise.Made(promise.Lines(final), word) >= 0 }
