package app

// Error is a failure with what to do about it.
type Error struct {
	Err    error
	Remedy string // one sentence, lower case, without a full stop
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure itself.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do; the command line prints it behind "Try:".
func (e *Error) Hint() string { return e.Remedy }
