package probe

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// handshakeError is an error of TLS on a new connection.
type handshakeError struct{ error }

// Unwrap returns the error of TLS.
func (e *handshakeError) Unwrap() error { return e.error }

// bodyError is an error in the body of an answer.
type bodyError struct {
	status int
	error
}

// Unwrap returns the error of reading.
func (e *bodyError) Unwrap() error { return e.error }

// fault is the reason for silence, as people see it.
type fault struct{ saw, why, fix string }

// silence says why there is no answer.
func silence(err error) string { return faultOf(err).saw }

// faultOf explains an error of a connection.
func faultOf(err error) fault {
	var dial *net.OpError
	var shake *handshakeError
	var body *bodyError
	switch {
	case errors.As(err, &shake):
		return faultOfTLS(shake.error)
	case errors.As(err, &dial) && dial.Op == "dial":
		return faultOfDial(dial)
	case errors.As(err, &body):
		return faultOfBody(body)
	case isTimeout(err):
		return fault{
			"no answer in time", "A sender gives up after its time-out and delivers again.",
			"Answer as soon as the event is stored, and do slow work afterwards; check that the URL is the receiver's",
		}
	case isClosed(err):
		return fault{
			closed, "The connection was closed without an answer.",
			"Check that the port speaks HTTP, or write https:// if it speaks TLS; look into the log of the receiver and of its proxy",
		}
	}
	return fault{
		"no answer: " + err.Error(), "Nothing that came back is an answer of HTTP.",
		"Check that the port of the URL is the receiver's, and that it speaks HTTP",
	}
}

func faultOfBody(err *bodyError) fault {
	f := fault{
		fmt.Sprintf("%d, but its body is broken: %v", err.status, err.error), "A sender takes a broken answer for a failure, and delivers again.",
		"Look for the cause in the receiver and in its proxy; the answer needs no body",
	}
	switch {
	case isTimeout(err.error):
		f.saw, f.why = fmt.Sprintf("%d, but its body does not end", err.status), "A sender waits for the whole answer, up to its time-out."
		f.fix = "End the answer; it needs no body"
	case isClosed(err.error):
		f.saw = fmt.Sprintf("%d, but its body is cut off", err.status)
	}
	return f
}

func faultOfDial(err *net.OpError) fault {
	f := fault{
		"no connection: " + err.Err.Error(), "No sender reaches the endpoint at this URL.",
		"Start the receiver, and check the host and port of the URL",
	}
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case errors.As(err, &name):
		f.saw, f.fix = fmt.Sprintf("no address of %s: %s", name.Name, name.Err), "Check the host of the URL"
	case isTimeout(err):
		f.saw = fmt.Sprintf("no connection to %s in time", err.Addr)
		f.fix = "Check the host and port of the URL, and the firewalls on the way"
	case errors.As(err, &number):
		f.saw = fmt.Sprintf("%s: %s", err.Addr, number)
	}
	return f
}

func faultOfTLS(err error) fault {
	f := fault{
		"no TLS: " + err.Error(), "A sender cannot open a connection with TLS either.",
		"Check that the port speaks TLS 1.2 or newer, or write http:// if it speaks plain HTTP",
	}
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate):
		text, _, _ := strings.Cut(strings.TrimPrefix(certificate.Err.Error(), "x509: "), " (possibly")
		return fault{
			"certificate refused: " + text, "A sender refuses it, too: events never arrive.",
			"Serve a valid certificate of a public authority with its whole chain; in a test, name your own root with --ca",
		}
	case errors.As(err, &plain):
		f.saw = "the port speaks no TLS"
	case isTimeout(err):
		f.saw = "no TLS handshake in time"
	case isClosed(err):
		f.saw = closed + " during the TLS handshake"
	}
	return f
}

// refusalOf explains the answer to a valid event that was not accepted.
func refusalOf(a answer) fault {
	f := fault{a.full(), "A right delivery of the provider is not accepted: every event is lost.", "Answer 2xx once the event is stored"}
	const ownBody = "if the application needs other fields, give an event of its own with --sample or --body"
	switch {
	case a.tls:
		f.why, f.fix = "The port speaks TLS, and the URL says http.", "Write https:// in the URL"
	case a.location != "":
		f.why, f.fix = "A redirect is a failure for most senders: they do not follow it.",
			"Take the URL that it redirects to, here and at the provider"
	case a.status == http.StatusNotFound:
		f.fix = "Check the path of the URL"
	case a.status == http.StatusMethodNotAllowed:
		f.fix = "Check the path of the URL, and that it takes POST"
	case a.status == http.StatusForbidden:
		f.fix = "Check that the receiver has this secret, and exempt the path from logins and from protection against CSRF"
	case a.status == http.StatusUnauthorized, a.status == http.StatusBadRequest:
		f.fix = "Check that the receiver has this secret, and verify the raw body before a framework parses it; " + ownBody
	case a.status == http.StatusTooManyRequests:
		f.fix = "Exempt the path from the limit on requests, or raise it"
	case a.status/100 == 4:
		f.fix = "Check that the URL is the receiver's; " + ownBody
	case a.status/100 == 5:
		f.why, f.fix = "The receiver, or a proxy before it, fails on a right delivery.", "Look into its log; "+ownBody
	}
	return f
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isClosed reports whether the other side closed a connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}
