package hookadmin

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	sessionCookie = "hookonce_session"
	sessionLength = 12 * time.Hour
	// maxLogin bounds the form of a login: no token is longer than a header may be.
	maxLogin = 16 << 10
)

// newSessionKey derives what signs sessions. Another token makes another key,
// and so ends all sessions; and who has a session cannot ask as the API does.
func newSessionKey(token string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "hookonce: sessions of the dashboard", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("admin API: deriving the key of sessions: %w", err)
	}
	return key, nil
}

// session returns the value of a cookie that is good until then. Nothing is kept
// of it here, so that it is good at every gateway with the same token.
func (g *guard) session(until time.Time) string {
	expires := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, g.sessionKey)
	mac.Write([]byte(expires)) // never fails
	return expires + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hasSession reports whether r carries a session that is good now. Others of its
// name do not hinder: any server of this host, on any port, can set one.
func (g *guard) hasSession(r *http.Request, now time.Time) bool {
	for _, cookie := range r.CookiesNamed(sessionCookie) {
		text, _, _ := strings.Cut(cookie.Value, ".")
		expires, err := strconv.ParseInt(text, 10, 64)
		if err == nil && now.Unix() < expires && hmac.Equal([]byte(cookie.Value), []byte(g.session(time.Unix(expires, 0)))) {
			return true
		}
	}
	return false
}

// setSession hands value over as the session, for that many seconds; negative
// ones end it. Secure is set only where this connection is TLS: X-Forwarded-Proto
// may be anybody's claim, and a Secure cookie is lost on plain HTTP.
func setSession(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// sameOrigin reports whether a page of this origin sent r. Unlike the API, which
// scripts use, a form is sent by browsers alone, and they say where they are: so
// a request that says nothing is none of ours. Browsers leave Sec-Fetch-Site out
// on plain HTTP beyond this machine.
func sameOrigin(r *http.Request) bool {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return len(sites) == 1 && sites[0] == "same-origin"
	}
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	u, err := url.Parse(origins[0])
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// loginPage is what login.html shows.
type loginPage struct {
	Refused string // why the last try was refused; "" before the first
}

func (h *handler) showLogin(w http.ResponseWriter, r *http.Request) {
	if h.guard.hasSession(r, time.Now()) {
		redirect(w, "./")
		return
	}
	h.answerLogin(w, r, http.StatusOK, "")
}

func (h *handler) answerLogin(w http.ResponseWriter, r *http.Request, status int, refused string) {
	h.render(w, r, status, "login.html", &page{Title: "Sign in", Content: &loginPage{refused}})
}

// login compares a token with that of the settings, and begins a session. A try
// is counted before it is looked at, or many at once would all be looked at.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	if wait := h.logins.Take(r.RemoteAddr, now); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		h.answerLogin(w, r, http.StatusTooManyRequests, "Too many tries from your address. Wait "+inWords(wait.Round(time.Second))+", then try again.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			h.answerLogin(w, r, http.StatusRequestEntityTooLarge, "That is longer than any token.")
			return
		}
		h.answerLogin(w, r, http.StatusBadRequest, "The form could not be read. Try again.")
		return
	}
	// A token holds no spaces, but what is copied may come with some.
	if !h.guard.isToken(strings.TrimSpace(r.PostForm.Get("token"))) {
		if h.loginLines.Take(now) == 0 {
			h.logger.WarnContext(r.Context(), "a login to the dashboard failed: it was not the token", slog.String("remote", r.RemoteAddr))
		}
		h.answerLogin(w, r, http.StatusForbidden, "That is not the token of the settings (admin.token).")
		return
	}
	h.logins.GiveBack(r.RemoteAddr)
	setSession(w, r, h.guard.session(now.Add(sessionLength)), int(sessionLength/time.Second))
	redirect(w, "./")
}

func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	setSession(w, r, "", -1)
	redirect(w, "login")
}

// redirect sends the browser to another page, seen from the one that was asked
// for, so that it is found wherever the handler is mounted.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
