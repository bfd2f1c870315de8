package hookadmin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// guard decides which requests are allowed.
type guard struct {
	digest     [sha256.Size]byte // of the token
	sessionKey []byte
	open       bool // no token: loopback callers only
}

// refusal is the answer to a request that is refused.
type refusal struct {
	status int
	detail string
}

func newGuard(token string, loopback bool) (guard, error) {
	if token == "" {
		if !loopback {
			return guard{}, errors.New("admin API: without a token it must listen on a loopback address; set admin.token")
		}
		return guard{open: true}, nil
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return guard{}, errors.New("admin API: the token must be printable ASCII without spaces")
		}
	}
	key, err := newSessionKey(token)
	return guard{digest: sha256.Sum256([]byte(token)), sessionKey: key}, err
}

// check returns nil if e may answer r.
func (g *guard) check(r *http.Request, e *endpoint) *refusal {
	if e.probe {
		return nil
	}
	if e.page && r.Method == http.MethodPost && !sameOrigin(r) {
		return &refusal{http.StatusForbidden, "Only forms of this dashboard may be sent here, by a browser that sends Sec-Fetch-Site or Origin."}
	}
	switch {
	case g.open:
		return checkLocal(r)
	case e.door || e.page && g.hasSession(r, time.Now()):
		return nil
	}
	return g.checkToken(r)
}

// checkToken returns nil if r carries the token in its header.
func (g *guard) checkToken(r *http.Request) *refusal {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return &refusal{http.StatusUnauthorized, "Send one header: Authorization: Bearer TOKEN."}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !g.isToken(strings.TrimLeft(token, " ")) || !strings.EqualFold(scheme, "Bearer") {
		return &refusal{http.StatusUnauthorized, "The token is wrong: it differs from admin.token in the settings."}
	}
	return nil
}

func (g *guard) isToken(text string) bool {
	// Digests have one length, so the comparison does not reveal the length of the token.
	digest := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(digest[:], g.digest[:]) == 1
}

// checkLocal refuses requests that a web page could make a browser send: requests under another
// name than loopback, and requests from another origin.
func checkLocal(r *http.Request) *refusal {
	if !loopbackHost(r.Host) {
		return &refusal{http.StatusForbidden, "Without a token, the Host must be a loopback name or address. Set admin.token to use another."}
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || !loopbackHost(u.Host) {
			return &refusal{http.StatusForbidden, "Without a token, the Origin must be a loopback name or address. Set admin.token to use another."}
		}
	}
	return nil
}

// loopbackHost reports whether host, with or without a port, is localhost or a loopback address.
// Other names under .localhost do not count, because resolvers differ about them.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
