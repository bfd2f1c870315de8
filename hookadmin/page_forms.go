package hookadmin

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// maxForm bounds the form of an action, in bytes: a page of ids.
const maxForm = 256 << 10

// form holds the hidden fields of a form that changes something.
type form struct {
	Allowed bool   // the caller may change something; otherwise pages have no such forms
	Token   string // proves that a page of this session made the form
	Key     string // the Idempotency-Key of the change
}

// newForm returns the hidden fields of a form on the page that answers r.
func (h *handling) newForm(r *http.Request) form {
	return form{Allowed: h.access == FullAccess, Token: h.formToken(r), Key: "form-" + rand.Text()}
}

// minFormKey is the length of the shortest Config.FormKey, in bytes.
const minFormKey = 32

// formKey returns the key that signs forms. Gateways with the same token have the same; without a
// token it is given, or one of this handler.
func (g *guard) formKey(given []byte) ([]byte, error) {
	switch {
	case given != nil && g.signsIn():
		return nil, errors.New("admin API: Config.FormKey has no use with Config.Token, from which the key follows: leave it out")
	case given != nil && len(given) < minFormKey:
		return nil, fmt.Errorf("admin API: Config.FormKey has %d bytes: it needs at least %d random ones", len(given), minFormKey)
	case given != nil:
		return slices.Clone(given), nil
	case !g.signsIn():
		return []byte(rand.Text()), nil
	}
	mac := hmac.New(sha256.New, g.credentials[0].sessionKey)
	mac.Write([]byte("hookonce: forms of the dashboard")) // never fails
	return mac.Sum(nil), nil
}

// sessionOf returns the session that r carries, or "".
func (g *guard) sessionOf(r *http.Request, now time.Time) string {
	for _, cookie := range r.CookiesNamed(sessionCookie) {
		for i := range g.credentials {
			if g.credentials[i].started(cookie.Value, now) {
				return cookie.Value
			}
		}
	}
	return ""
}

// formToken returns the token of forms in the session of r. Without a session, on loopback or with
// the token in the header, it is bound to the key alone: the guard has refused other origins.
func (h *handler) formToken(r *http.Request) string {
	return h.sign("form", h.guard.sessionOf(r, time.Now()))
}

// sign returns a MAC of a text for one purpose.
func (h *handler) sign(purpose, text string) string {
	mac := hmac.New(sha256.New, h.formKey)
	mac.Write([]byte(purpose + "\x00" + text)) // never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// action returns the fields of a form that changes something, of the given names and those of form,
// or answers with an error and returns nil.
func (h *handling) action(w http.ResponseWriter, r *http.Request, known ...string) url.Values {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		h.fail(w, r, http.StatusUnsupportedMediaType, "This path takes forms of the dashboard. Programs use the API.", nil)
		return nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			h.fail(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("The form must not be longer than %d bytes.", maxForm), nil)
			return nil
		}
		h.fail(w, r, http.StatusBadRequest, "The form could not be read.", nil)
		return nil
	}
	values := r.PostForm
	if !hmac.Equal([]byte(values.Get("token")), []byte(h.formToken(r))) {
		h.fail(w, r, http.StatusForbidden, "The form is not of this session, or the gateway was restarted since the page was made. Go back, reload the page, and try again. Nothing was changed.", nil)
		return nil
	}
	if err := checkForm(values, known); err != nil {
		h.fail(w, r, http.StatusBadRequest, "The form is refused: "+err.Error()+". Nothing was changed.", nil)
		return nil
	}
	return values
}

// checkForm checks that the fields are known, and that all but "letter" appear once.
func checkForm(values url.Values, known []string) error {
	for _, name := range sortedKeys(values) {
		if !slices.Contains(append(known, "token", "key"), name) {
			return fmt.Errorf("unknown field %.100q", name)
		}
		if len(values[name]) > 1 && name != "letter" {
			return fmt.Errorf("the field %q appears more than once", name)
		}
		for _, value := range values[name] {
			if reason := badField(name, value); reason != "" {
				return fmt.Errorf("the field %q: %s", name, reason)
			}
		}
	}
	if err := checkKey(values.Get("key")); err != nil {
		return err
	}
	return nil
}

// badField is badText for fields of forms. Some hold several values: "letter" a source and an id, and
// "back" the query of a page.
func badField(name, value string) string {
	switch {
	case name != "letter" && name != "back":
		return badText(name, value)
	case !plainText(value):
		return "holds a control character or is not valid UTF-8"
	}
	return ""
}

func checkKey(key string) error {
	if key == "" || len(key) > 255 {
		return errors.New(`the field "key" must have 1 to 255 bytes`)
	}
	return nil
}

const (
	flashCookie = "hookonce_flash"
	flashLength = time.Minute
	maxFlash    = 600 // bytes of its text
)

// setFlash makes the next page show the outcome of an action.
func (h *handler) setFlash(w http.ResponseWriter, r *http.Request, f flash) {
	f.Text = strings.ToValidUTF8(f.Text[:min(len(f.Text), maxFlash)], "…")
	h.seal(w, r, flashCookie, f, flashLength)
}

// takeFlash returns the outcome to show on the page that answers r, and makes the browser forget it;
// nil if there is none.
func (h *handler) takeFlash(w http.ResponseWriter, r *http.Request) *flash {
	var f flash
	if !h.unseal(r, flashCookie, &f) {
		return nil
	}
	writeCookie(w, r, flashCookie, "", -1)
	return &f
}

// seal gives the browser a cookie that only this session opens again, until the time is up. It is
// signed, because any server of this host can set cookies.
func (h *handler) seal(w http.ResponseWriter, r *http.Request, name string, content any, length time.Duration) {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err) // a struct of texts and numbers always encodes
	}
	text := strconv.FormatInt(time.Now().Add(length).Unix(), 10) + "." + base64.RawURLEncoding.EncodeToString(raw)
	writeCookie(w, r, name, text+"."+h.signCookie(r, name, text), int(length/time.Second))
}

func (h *handler) signCookie(r *http.Request, name, text string) string {
	return h.sign(name, text+"."+h.guard.sessionOf(r, time.Now()))
}

// unseal reads a cookie of seal, and reports whether there is a valid one.
func (h *handler) unseal(r *http.Request, name string, into any) bool {
	for _, cookie := range r.CookiesNamed(name) {
		text, mac, _ := cutLast(cookie.Value, ".")
		if !hmac.Equal([]byte(mac), []byte(h.signCookie(r, name, text))) {
			continue
		}
		until, encoded, _ := strings.Cut(text, ".")
		expires, err := strconv.ParseInt(until, 10, 64)
		raw, err2 := base64.RawURLEncoding.DecodeString(encoded)
		if cmp.Or(err, err2, json.Unmarshal(raw, into)) == nil && time.Now().Unix() <= expires {
			return true
		}
	}
	return false
}

func writeCookie(w http.ResponseWriter, r *http.Request, name, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

const undoCookie = "hookonce_undo"

// undo is the last discard of a browser, which it may undo for driver.UndoTime.
type undo struct {
	Operation string // the key of its request
	Count     int
	At        time.Time
}

// rememberUndo makes pages offer to undo a discard.
func (h *handler) rememberUndo(w http.ResponseWriter, r *http.Request, operation string, count int) {
	h.seal(w, r, undoCookie, &undo{operation, count, time.Now()}, driver.UndoTime)
}

func forgetUndo(w http.ResponseWriter, r *http.Request) { writeCookie(w, r, undoCookie, "", -1) }

// undoBox is the offer to undo a discard, with its form.
type undoBox struct {
	Root      string
	Form      form
	Operation string
	Text      string
	At        Time
}

// newUndoBox returns the offer of the page that answers r; nil if there is nothing to undo.
func (h *handling) newUndoBox(r *http.Request) *undoBox {
	var u undo
	if h.access != FullAccess || !h.unseal(r, undoCookie, &u) {
		return nil
	}
	return &undoBox{rootFrom(r.URL.EscapedPath()), h.newForm(r), u.Operation, say.Count(u.Count, "dead letter") + " discarded", Time(u.At)}
}

// done ends an action: the browser gets the page at to, a path without the first slash, with the
// outcome.
func (h *handler) done(w http.ResponseWriter, r *http.Request, to, format string, args ...any) {
	h.setFlash(w, r, flash{Kind: "good", Text: fmt.Sprintf(format, args...)})
	redirect(w, to)
}

// undone ends an action that was refused or failed.
func (h *handler) undone(w http.ResponseWriter, r *http.Request, to, text string) {
	h.setFlash(w, r, flash{Kind: "bad", Text: text})
	redirect(w, to)
}

// logAway logs that a page lacks a part.
func (h *handling) logAway(r *http.Request, doing string, err error) {
	h.logger.WarnContext(r.Context(), doing+" failed; the page lacks that part", slog.String("path", r.URL.EscapedPath()), slog.Any("error", err))
}
