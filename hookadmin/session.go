package hookadmin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/runbook"
)

const (
	sessionCookie = "hookonce_session"
	sessionLength = 12 * time.Hour
	// maxLogin bounds the form of a login, in bytes: no token is longer than a header.
	maxLogin = 16 << 10
)

// sessionAccess returns the access of the session that r carries. It ignores other cookies of that
// name, because any server of this host, on any port, can set one.
func (g *guard) sessionAccess(r *http.Request, now time.Time) Access {
	for _, cookie := range r.CookiesNamed(sessionCookie) {
		for i := range g.credentials {
			if c := &g.credentials[i]; c.started(cookie.Value, now) {
				return c.access
			}
		}
	}
	return NoAccess
}

// setSession sets value as the session cookie for so many seconds; a negative number ends the
// session. Secure depends on this connection alone: anyone can send X-Forwarded-Proto, and on plain
// HTTP a Secure cookie would be lost.
func setSession(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// sameOrigin reports whether a page of this origin sent r. Only browsers send forms, and they send
// Sec-Fetch-Site or Origin with them, so a request with neither is refused. Over plain HTTP,
// browsers send Sec-Fetch-Site only to this machine.
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

// loginPage is the content of login.html.
type loginPage struct {
	Refused string // why the last try was refused, or ""
}

func (h *handling) showLogin(w http.ResponseWriter, r *http.Request) {
	if h.guard.sessionAccess(r, time.Now()) != NoAccess {
		redirect(w, "./")
		return
	}
	h.answerLogin(w, r, http.StatusOK, "")
}

func (h *handling) answerLogin(w http.ResponseWriter, r *http.Request, status int, refused string) {
	p := &page{Title: "Sign in", Content: &loginPage{refused}}
	if refused != "" {
		p.See = []runbook.Entry{runbook.Logins}
	}
	h.render(w, r, status, "login.html", p)
}

// login compares a token with those of the settings, and starts a session.
func (h *handling) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			h.answerLogin(w, r, http.StatusRequestEntityTooLarge, "This is longer than any token.")
			return
		}
		h.answerLogin(w, r, http.StatusBadRequest, "The form could not be read. Try again.")
		return
	}
	// A token holds no spaces, but a copied one may be surrounded by them.
	token := strings.TrimSpace(r.PostForm.Get("token"))
	access, refused := h.guard.try(w.Header(), r, token, "a login to the dashboard failed: wrong token")
	if refused != nil {
		status := refused.status
		if status == http.StatusUnauthorized {
			status = http.StatusForbidden // 401 asks for a header
		}
		h.answerLogin(w, r, status, refused.detail)
		return
	}
	for i := range h.guard.credentials {
		if c := &h.guard.credentials[i]; c.access == access {
			setSession(w, r, c.session(time.Now().Add(sessionLength)), int(sessionLength/time.Second))
		}
	}
	redirect(w, "./")
}

func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	setSession(w, r, "", -1)
	redirect(w, "login")
}

// redirect sends the browser to a path relative to the requested page, so that it works wherever
// the handler is mounted.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
