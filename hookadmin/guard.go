package hookadmin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/limit"
)

// guard decides which requests are allowed.
type guard struct {
	digest     [sha256.Size]byte // of the token
	sessionKey []byte
	open       bool // no token: loopback callers only

	tries  *limit.Addresses // wrong tokens, of logins and requests
	lines  *limit.Bucket    // log lines about them
	logger *slog.Logger

	proxies limit.Proxies
}

// minToken is the least length of a token, in bytes, on an address that others can reach.
const minToken = 16

// refusal is the answer to a request that is refused.
type refusal struct {
	status int
	detail string
}

func newGuard(token string, loopback bool, logger *slog.Logger) (guard, error) {
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
	if len(token) < minToken && !loopback {
		return guard{}, fmt.Errorf("admin API: beyond loopback the token must have at least %d bytes; make one with: openssl rand -hex 32", minToken)
	}
	key, err := newSessionKey(token)
	return guard{
		digest: sha256.Sum256([]byte(token)), sessionKey: key,
		tries: limit.NewAddresses(10, time.Minute), lines: limit.New(60, time.Minute), logger: logger,
	}, err
}

// check returns nil if e may answer r. It may set headers of the answer.
func (g *guard) check(header http.Header, r *http.Request, e *endpoint) *refusal {
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
	return g.checkToken(header, r)
}

// checkToken returns nil if r carries the token in its header.
func (g *guard) checkToken(header http.Header, r *http.Request) *refusal {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return &refusal{http.StatusUnauthorized, "Send one header: Authorization: Bearer TOKEN."}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return &refusal{http.StatusUnauthorized, "Send the token as: Authorization: Bearer TOKEN."}
	}
	return g.try(header, r, strings.TrimLeft(token, " "), "a request to the admin listener was refused: wrong token")
}

// try compares text with the token. It returns nil if they are equal, and otherwise logs failed. An
// address with too many wrong tokens must wait, as header of the answer says; until then even the
// right token is refused, because guessing could continue otherwise.
func (g *guard) try(header http.Header, r *http.Request, text, failed string) *refusal {
	client := g.proxies.Client(r)
	right, wait := g.tries.Try(client, func() bool { return g.isToken(text) })
	switch {
	case wait > 0:
		wait = (wait + time.Second - 1).Truncate(time.Second)
		header.Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
		return &refusal{http.StatusTooManyRequests, "Too many wrong tokens came from your address. Wait " + inWords(wait) + ", then try again."}
	case right:
		return nil
	}
	if g.lines.Take(time.Now()) == 0 {
		g.logger.WarnContext(r.Context(), failed, slog.String("remote", client), slog.String("path", r.URL.EscapedPath()))
	}
	return &refusal{http.StatusUnauthorized, "The token is wrong: it differs from admin.token in the settings."}
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
