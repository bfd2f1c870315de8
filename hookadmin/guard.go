package hookadmin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/limit"
)

// guard decides which requests are allowed.
type guard struct {
	authorize   func(*http.Request) Access // nil: the tokens decide
	credentials []credential               // the full one first
	open        bool                       // neither: loopback callers only

	tries  *limit.Addresses // wrong tokens, of logins and requests
	lines  *limit.Bucket    // log lines about them
	logger *slog.Logger

	proxies limit.Proxies
}

// refusal is the answer to a request that is refused.
type refusal struct {
	status int
	detail string
}

func newGuard(cfg *Config, logger *slog.Logger) (guard, error) {
	if cfg.Authorize != nil {
		if cfg.Token != "" || cfg.ReadToken != "" || cfg.Loopback {
			return guard{}, errors.New("admin API: Config.Authorize decides alone: leave out Config.Token, Config.ReadToken and Config.Loopback")
		}
		return guard{authorize: cfg.Authorize}, nil
	}
	credentials, err := newCredentials(cfg.Token, cfg.ReadToken, cfg.Loopback)
	if err != nil {
		return guard{}, err
	}
	if len(credentials) == 0 {
		if !cfg.Loopback {
			return guard{}, errors.New("admin API: without a token it must listen on a loopback address; set admin.token")
		}
		return guard{open: true}, nil
	}
	return guard{
		credentials: credentials, tries: limit.NewAddresses(10, time.Minute), lines: limit.New(60, time.Minute), logger: logger,
	}, nil
}

// signsIn reports whether callers sign in with a token.
func (g *guard) signsIn() bool { return len(g.credentials) > 0 }

// check returns the access of r, which is enough for e, or a refusal. It may set headers of the
// answer.
func (g *guard) check(header http.Header, r *http.Request, e *endpoint) (Access, *refusal) {
	if e.probe {
		return NoAccess, nil
	}
	if e.page && r.Method == http.MethodPost && !sameOrigin(r) {
		return NoAccess, &refusal{http.StatusForbidden, "Only forms of this dashboard may be sent here, by a browser that sends Sec-Fetch-Site or Origin."}
	}
	if e.door {
		return NoAccess, nil
	}
	access, refused := g.access(header, r, e)
	switch {
	case refused != nil:
		return NoAccess, refused
	case access == NoAccess:
		return access, &refusal{http.StatusForbidden, "You have no access to hookonce here."}
	case access < e.needs():
		return access, &refusal{http.StatusForbidden, "This needs full access. You have read access: it shows everything and changes nothing."}
	}
	return access, nil
}

// access returns the access of the caller of r. A session opens pages, and answers of the API to GET:
// scripts of the pages read them. It never opens changes by the API.
func (g *guard) access(header http.Header, r *http.Request, e *endpoint) (Access, *refusal) {
	switch {
	case g.authorize != nil:
		return g.authorize(r), nil
	case g.open:
		return FullAccess, checkLocal(r)
	case e.page || e.method == http.MethodGet && strings.HasPrefix(e.path, "/api/"):
		if access := g.sessionAccess(r, time.Now()); access != NoAccess {
			return access, nil
		}
	}
	return g.checkToken(header, r)
}

// checkToken returns the access of the token that r carries in its header.
func (g *guard) checkToken(header http.Header, r *http.Request) (Access, *refusal) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return NoAccess, &refusal{http.StatusUnauthorized, "Send one header: Authorization: Bearer TOKEN."}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return NoAccess, &refusal{http.StatusUnauthorized, "Send the token as: Authorization: Bearer TOKEN."}
	}
	return g.try(header, r, strings.TrimLeft(token, " "), "a request to the admin listener was refused: wrong token")
}

// try returns the access that a token gives. If it gives none, try logs failed. An address with too
// many wrong tokens is told to wait, as header of the answer says. A right token always passes: behind
// a proxy, a script with an old token would lock out everyone. Guessing stays hopeless at any rate,
// because a token has at least minToken bytes. A shorter one is for loopback, where none is needed.
func (g *guard) try(header http.Header, r *http.Request, token, failed string) (Access, *refusal) {
	if access := accessOf(g.credentials, token); access != NoAccess {
		return access, nil
	}
	client := g.proxies.Client(r)
	if wait := g.tries.Take(client, time.Now()); wait > 0 {
		wait = (wait + time.Second - 1).Truncate(time.Second)
		header.Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
		return NoAccess, &refusal{http.StatusTooManyRequests, "The token is wrong, and so were too many others from your address. Send the right one, or wait " + inWords(wait) + " before another try."}
	}
	if g.lines.Take(time.Now()) == 0 {
		g.logger.WarnContext(r.Context(), failed, slog.String("remote", client), slog.String("path", r.URL.EscapedPath()))
	}
	return NoAccess, &refusal{http.StatusUnauthorized, "The token is wrong: it differs from admin.token and admin.read_token in the settings."}
}

// checkLocal refuses requests that a web page could make a browser send: requests under another
// name than loopback, and requests from another origin.
func checkLocal(r *http.Request) *refusal {
	if !limit.Loopback(r.Host) {
		return &refusal{http.StatusForbidden, "Without a token, the Host must be a loopback name or address. Set admin.token to use another."}
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || !limit.Loopback(u.Host) {
			return &refusal{http.StatusForbidden, "Without a token, the Origin must be a loopback name or address. Set admin.token to use another."}
		}
	}
	return nil
}
