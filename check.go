package hookonce

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// FieldError is one fault of a Config, or one warning.
type FieldError struct {
	// Path is the setting, by the keys of a settings file: "sources.stripe.secrets[0]", "routes[2].to".
	// Settings that a file does not have are named alike.
	Path string
	// Problem quotes no value. Detail follows it and may quote one, so do not show it where the value may
	// be secret. One of them may be "".
	Problem, Detail string
	Hint            string // the remedy; "" if the text holds it
	Logged          bool   // a warning that New and Reload log
}

// Error returns the setting, the fault and the remedy.
func (e *FieldError) Error() string {
	text := e.Path + ": " + strings.TrimSpace(e.Problem+" "+e.Detail)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Check returns all faults of c that New would find on any store and with handlers for every source, joined by
// errors.Join. It also returns warnings: of settings that are allowed, but risky or without effect. Each
// fault is a *FieldError.
func (c *Config) Check() (warnings []*FieldError, err error) {
	own := c.withDefaults()
	own.Logger = slog.New(slog.DiscardHandler)
	found := own.check()
	if c != nil {
		found.at("").warnOfRetention(c.Retention, own.DedupeWindow)
	}
	newSetup(&own, nil, &own, &handlerSet{sources: sourceNames(own.Sources)}, newLearnedSecrets(nil), found)
	return found.warnings, found.err()
}

// findings are the faults and the warnings of a Config.
type findings struct {
	faults   []error // each is a *FieldError
	warnings []*FieldError
}

func (f *findings) err() error { return errors.Join(f.faults...) }

// log logs the warnings that New and Reload log.
func (f *findings) log(log *slog.Logger) {
	for _, w := range f.warnings {
		if w.Logged {
			log.Warn(w.Error())
		}
	}
}

func (f *findings) at(path string) place { return place{f, path} }

// place adds to the findings about one part of a Config. Its methods take the key of a setting in that part; ""
// is the part itself.
type place struct {
	*findings
	path string
}

func (p place) pathOf(key string) string {
	if p.path == "" || key == "" {
		return p.path + key
	}
	return p.path + "." + key
}

// fault adds a fault whose text quotes no value.
func (p place) fault(key, format string, args ...any) { p.faultHint(key, "", format, args...) }

func (p place) faultHint(key, hint, format string, args ...any) {
	p.faults = append(p.faults, &FieldError{Path: p.pathOf(key), Problem: fmt.Sprintf(format, args...), Hint: hint})
}

// unknown adds the fault of a value that the setting cannot have.
func (p place) unknown(key, problem, value, hint string) {
	p.faults = append(p.faults, &FieldError{Path: p.pathOf(key), Problem: problem, Detail: strconv.Quote(value), Hint: hint})
}

// oneOf adds a fault unless value is one of words.
func (p place) oneOf(key, value string, words ...string) {
	if !slices.Contains(words, value) {
		p.unknown(key, "unknown value", value, "use "+strings.Join(words, " or "))
	}
}

// known adds a fault unless the sorted names have name. The argument what says of what kind they are.
func (p place) known(key, what, name string, names []string) {
	if _, ok := slices.BinarySearch(names, name); !ok {
		p.unknown(key, "there is no "+what, name, say.DidYouMean(name, names))
	}
}

// notNegative adds a fault if value is negative.
func notNegative[T ~int | ~int64](p place, key string, value T) {
	if value < 0 {
		p.fault(key, "it must not be negative")
	}
}

// wrong adds the errors that err joins, which may quote the value. They are of the setting key, or of the
// part that they name.
func (p place) wrong(key string, err error) {
	var of *verify.FieldError
	var rule *provider.RuleError
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return
	case ok:
		for _, one := range joined.Unwrap() {
			p.wrong(key, one)
		}
		return
	case errors.As(err, &rule):
		key, err = rule.Field, rule.Err
	case errors.As(err, &of) && (key == "" || strings.Contains(of.Field, ".")):
		key, err = of.Field, errors.New(of.Problem)
	case errors.As(err, &of):
		key, err = key+"."+of.Field, errors.New(of.Problem)
	}
	p.faults = append(p.faults, &FieldError{Path: p.pathOf(key), Detail: err.Error()})
}

// hint adds a hint to the faults of a setting that have none.
func (p place) hint(key, hint string) {
	for _, err := range p.faults {
		var fault *FieldError
		if errors.As(err, &fault) && fault.Path == p.pathOf(key) && fault.Hint == "" {
			fault.Hint = hint
		}
	}
}

// warn adds a warning that is not logged, and quotes no value.
func (p place) warn(key, format string, args ...any) {
	p.warnings = append(p.warnings, &FieldError{Path: p.pathOf(key), Problem: fmt.Sprintf(format, args...)})
}

// warnLogged adds a warning that is logged.
func (p place) warnLogged(key, format string, args ...any) {
	p.warn(key, format, args...)
	p.warnings[len(p.warnings)-1].Logged = true
}

// judge adds the fault of a secret or a key, which err never quotes, or a warning of a weak one.
func (p place) judge(key string, weak bool, err error) {
	switch {
	case err != nil:
		p.fault(key, "%s", err)
	case weak:
		p.warn(key, "the secret has less than 16 bytes (of user:password, the password), so it can be guessed")
	}
}

// check checks the settings that newSetup does not check.
func (c *Config) check() *findings {
	found := &findings{}
	at := found.at("")
	notNegative(at, "dedupe_window", c.DedupeWindow)
	notNegative(at, "retention", c.Retention)
	notNegative(at, "queue", c.Queue)
	notNegative(at, "body_bytes", c.BodyBytes)
	notNegative(at, "quarantine_rows", c.QuarantineRows)
	c.UnverifiedRate.check(at, "unverified_rate")
	for i, prefix := range c.TrustedProxies {
		if err := limit.CheckProxy(prefix); err != nil {
			at.fault(fmt.Sprintf("trusted_proxies[%d]", i), "it %s", err)
		}
	}
	return found
}

const (
	maxWorkers = 1000
	maxBatch   = 1000
)

// checkWork checks the settings of handlers. handled are the sources that have handlers.
func (c *Config) checkWork(l driver.WorkLimits, handled []string) error {
	found := &findings{}
	at := found.at("")
	if c.Workers < 1 || c.Workers > maxWorkers {
		at.fault("workers", "it is %d and must be 1 to %d", c.Workers, maxWorkers)
	}
	if c.Batch < 1 || c.Batch > maxBatch {
		at.fault("batch", "it is %d and must be 1 to %d", c.Batch, maxBatch)
	}
	if c.HandlerTimeout < 0 || c.HandlerTimeout > l.MaxHandlerTimeout {
		at.fault("handler_timeout", "it is %s and must be positive, and at most %s on this database; slow work belongs in the outbox",
			c.HandlerTimeout, l.MaxHandlerTimeout)
	}
	c.Retry.check(found.at("retry"))
	if l.MaxTransactions < 0 && len(handled) > 0 {
		at.faults = append(at.faults, errors.New("the store's pool has one connection, which a handler would keep from leases, outcomes and upkeep: "+
			"allow at least 2"))
	}
	for _, name := range handled {
		if len(c.Sources) > 0 && !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == name }) {
			at.fault("sources."+name, "there are handlers for this source, and it is not configured")
		}
	}
	return found.err()
}

func (r Retry) check(at place) {
	notNegative(at, "attempts", r.Attempts)
	notNegative(at, "first", r.First)
	notNegative(at, "max", r.Max)
	switch {
	case r.First > guard.MaxRetryAfter || r.Max > guard.MaxRetryAfter:
		at.fault("max", "first and max must not be longer than %s", say.Setting(guard.MaxRetryAfter))
	case r.Max >= 0 && r.Max < r.First:
		at.fault("max", "max must not be shorter than first, which is %s", say.Setting(r.First))
	}
}

func (r Rate) check(at place, key string) {
	if err := limit.Rate(r).Check(); err != nil {
		at.fault(key, "%s", err)
	}
}
