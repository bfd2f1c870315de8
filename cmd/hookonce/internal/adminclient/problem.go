package adminclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/hookadmin"
)

// Problem is a refusal of the API.
type Problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Reason is a word for programs, or "". See the schema Problem of the OpenAPI document.
	Reason string `json:"reason"`
	// Instance ends with the error id. The gateway logs the cause with that id.
	Instance string `json:"instance"`

	gateway string // its address, or "" in this process
	token   bool   // the request carried one
}

// Error implements error.
func (p *Problem) Error() string {
	switch {
	case p.Status == http.StatusUnauthorized && !p.token:
		return fmt.Sprintf("the gateway at %s needs a token", p.gateway)
	case p.gateway == "":
		return clause(p.Detail)
	case p.Status == http.StatusForbidden, p.Status == http.StatusServiceUnavailable: // Hint says the rest
		first, _, _ := strings.Cut(p.Detail, ". ")
		return fmt.Sprintf("the gateway at %s answered %d: %s", p.gateway, p.Status, clause(first))
	}
	return fmt.Sprintf("the gateway at %s answered %d: %s", p.gateway, p.Status, clause(p.Detail))
}

// Why returns the reason that a gateway gives for being not ready; "" if only its log has it.
func (p *Problem) Why() string {
	_, reason, _ := strings.Cut(p.Detail, "cannot be accepted. ")
	if reason, _, _ = strings.Cut(reason, " The log has more"); strings.HasPrefix(reason, "The log") {
		return ""
	}
	return strings.TrimSuffix(reason, ".")
}

// clause makes a sentence of the API the end of another one.
func clause(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	if second, _ := utf8.DecodeRuneInString(sentence[size:]); unicode.IsUpper(second) {
		size = 0 // an abbreviation
	} else {
		first = unicode.ToLower(first)
	}
	if size > 0 {
		sentence = string(first) + sentence[size:]
	}
	return strings.TrimSuffix(sentence, ".")
}

// Refused reports whether the gateway refuses this caller, or has no such path: the same request fails
// again.
func (p *Problem) Refused() bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	case http.StatusNotFound:
		return p.Reason == ""
	}
	return false
}

// Is reports whether the problem stands for an error of the library.
func (p *Problem) Is(target error) bool {
	if target == ErrUnreadable {
		return p.Reason == "unreadable"
	}
	known := hookadmin.ErrorOf(p.Reason)
	return known != nil && known == target
}

// Hint returns what to do, or "".
func (p *Problem) Hint() string {
	switch {
	case p.Status == http.StatusUnauthorized:
		return "set HOOKONCE_ADMIN_TOKEN to the admin.token of that gateway"
	case p.Status == http.StatusForbidden && p.token:
		return "set HOOKONCE_ADMIN_TOKEN to the admin.token of that gateway: its read-only token changes nothing"
	case p.Status == http.StatusForbidden:
		return "use the address of admin.listen, or a token"
	case p.Status == http.StatusTooManyRequests:
		return "set HOOKONCE_ADMIN_TOKEN to the admin.token of that gateway: the right one is never held back"
	case p.Status == http.StatusNotFound && p.Reason == "":
		return "use the address of admin.listen, not that of listen, and the same version of hookonce on both sides"
	case p.Status == http.StatusServiceUnavailable && strings.HasPrefix(p.Detail, "The disk of the database is full"):
		return "free some space on that disk; then run the same command again"
	case p.Status == http.StatusServiceUnavailable && strings.HasPrefix(p.Detail, "The database is read-only"):
		return "point the settings of that gateway to the primary; then run the same command again"
	case p.Status == http.StatusServiceUnavailable:
		return "check that the database runs; then run the same command again"
	case p.Status >= http.StatusInternalServerError && p.gateway != "" && p.Instance != "":
		return fmt.Sprintf("look in the log of that gateway for %q", strings.TrimPrefix(p.Instance, "urn:hookonce:error:"))
	}
	return ""
}

func (c *Client) problem(answer *http.Response, raw []byte) error {
	p := &Problem{gateway: c.String(), token: c.token != ""}
	if err := json.Unmarshal(raw, p); err != nil || p.Detail == "" {
		return &StrangerError{c.String(), fmt.Sprintf("it answered %d without a reason", answer.StatusCode)}
	}
	p.Status = answer.StatusCode
	return p
}

// StrangerError says that something other than the admin API of hookonce answered.
type StrangerError struct{ Address, Reason string }

// Error implements error.
func (e *StrangerError) Error() string {
	return fmt.Sprintf("%s is not an admin API of hookonce: %s", cmp.Or(e.Address, "the answer"), e.Reason)
}

// Hint returns what to do.
func (e *StrangerError) Hint() string { return "use the address of admin.listen, the dashboard's" }

// UnreachableError says that no answer came.
type UnreachableError struct {
	Address string
	Err     error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("asking the gateway at %s: %v", e.Address, plainly(e.Err))
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Hint returns what to do.
func (e *UnreachableError) Hint() string {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(e.Err, &certificate):
		return "name the authority of its certificate by --ca FILE, or give the gateway a certificate that this machine trusts"
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "look at the log of that gateway; it may be overloaded"
	}
	return "check that the gateway runs, and its address"
}

func (c *Client) unreachable(err error) error {
	// url.Error repeats the method and the address.
	if outer, is := errors.AsType[*url.Error](err); is {
		err = outer.Err
	}
	if c.here {
		return err
	}
	return &UnreachableError{c.String(), err}
}

// plainly leaves out the parts of a network error that repeat the address.
func plainly(err error) error {
	if lookup, is := errors.AsType[*net.DNSError](err); is {
		return errors.New(lookup.Err)
	}
	if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" {
		err = dial.Err
	}
	if call, is := errors.AsType[*os.SyscallError](err); is {
		err = call.Err
	}
	return err
}
