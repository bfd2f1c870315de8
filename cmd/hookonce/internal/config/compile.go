package config

import (
	"errors"
	"strings"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// eachError calls do with every error that err joins, or with err itself.
func eachError(err error, do func(error)) {
	if err == nil {
		return
	}
	// Only err itself is split: an error that a single fault wraps belongs to that fault.
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			eachError(e, do)
		}
		return
	}
	do(err)
}

// wrongField reports a fault of a scheme at the node that find returns for the field at fault.
func (l *loader) wrongField(err error, find func(field string) *node) {
	var fault *verify.FieldError
	if !errors.As(err, &fault) {
		l.wrong(find(""), err)
		return
	}
	l.wrong(find(fault.Field), errors.New(fault.Problem))
}

// compileScheme checks a scheme. It reports each fault at the node that find returns for the field.
func (l *loader) compileScheme(s verify.Scheme, find func(field string) *node) *verify.Verifier {
	v, err := verify.Compile(s)
	eachError(err, func(err error) { l.wrongField(err, find) })
	return v
}

// compileRules is compileScheme for event rules, which extend those of spec. A value that was found
// unusable has its fault already.
func (l *loader) compileRules(r provider.EventRules, spec *provider.Spec, find func(field string) *node) *provider.Extractor {
	x, err := provider.CompileRules(r)
	eachError(errors.Join(append(spec.CheckEvent(r), err)...), func(err error) {
		var fault *provider.RuleError
		if !errors.As(err, &fault) {
			l.wrong(find(""), err)
			return
		}
		at := find(fault.Field)
		switch hint := spec.EventHint("id"); {
		case l.faulty(at):
		case r.ID == "" && fault.Field == "event.id" && hint != "":
			l.faultHint(at, hint, "%s", fault.Err)
		default:
			l.wrong(at, fault.Err)
		}
	})
	return x
}

// checkKey reports whether secret is usable with v, and warns of weak ones. Errors of ParseKey
// never hold the secret.
func (l *loader) checkKey(n *node, v *verify.Verifier, secret Secret) bool {
	key, err := v.ParseKey(string(secret))
	switch {
	case err == nil && key.Private():
		l.faultHint(n, "remove it, and set the public key", "this is a private key: the source needs the public one")
		return false
	case err == nil && !v.PublicKey() && strings.TrimSpace(string(secret)) != string(secret):
		l.warn(n, "the secret begins or ends with a space, which counts as part of it")
	}
	return l.judgeKey(n, key.Weak(), err)
}

func (l *loader) judgeKey(n *node, weak bool, err error) bool {
	if err != nil {
		l.fault(n, "%s", err)
		return false
	}
	if weak {
		l.warn(n, "the secret has less than 16 bytes (of user:password, the password), so it can be guessed")
	}
	return true
}
