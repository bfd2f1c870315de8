package hookadmin

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Access is the right of a caller.
type Access int

const (
	// NoAccess refuses every request except /healthz and /readyz.
	NoAccess Access = iota
	// ReadAccess shows everything and changes nothing. It opens no profile of the process.
	ReadAccess
	// FullAccess allows everything.
	FullAccess
)

// needs returns the access that a caller of e needs.
func (e *endpoint) needs() Access {
	switch {
	case e.probe || e.door:
		return NoAccess
	case e.method == http.MethodPost, strings.HasPrefix(e.path, "/debug/"):
		return FullAccess
	}
	return ReadAccess
}

// minToken is the least length of a token, in bytes, on an address that others can reach.
const minToken = 16

// credential is a token and the access that it gives.
type credential struct {
	access     Access
	digest     [sha256.Size]byte // of the token
	sessionKey []byte            // signs the sessions that the token started
}

// newCredentials returns the credentials of the tokens that are not "".
func newCredentials(full, read string, loopback bool) ([]credential, error) {
	switch {
	case full == "" && read != "":
		return nil, errors.New("admin API: Config.ReadToken needs Config.Token: without it every local caller may change everything")
	case full != "" && full == read:
		return nil, errors.New("admin API: Config.ReadToken is the same as Config.Token: the read-only token must be another one")
	}
	var all []credential
	for _, c := range []struct {
		field, token string
		access       Access
	}{{"Config.Token", full, FullAccess}, {"Config.ReadToken", read, ReadAccess}} {
		if c.token == "" {
			continue
		}
		if strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("admin API: %s must be printable ASCII without spaces", c.field)
		}
		if len(c.token) < minToken && !loopback {
			return nil, fmt.Errorf("admin API: %s must have at least %d bytes beyond loopback; make one with: openssl rand -hex 32", c.field, minToken)
		}
		key, err := newSessionKey(c.token)
		if err != nil {
			return nil, err
		}
		all = append(all, credential{c.access, sha256.Sum256([]byte(c.token)), key})
	}
	return all, nil
}

// accessOf returns the access that a token gives. It compares with every credential, so its time tells
// nothing about the one that fits.
func accessOf(credentials []credential, token string) Access {
	// Digests have one length, so the comparison does not reveal the length of the token.
	digest := sha256.Sum256([]byte(token))
	access := NoAccess
	for i := range credentials {
		if subtle.ConstantTimeCompare(digest[:], credentials[i].digest[:]) == 1 {
			access = credentials[i].access
		}
	}
	return access
}

// newSessionKey derives the key that signs sessions. Another token gives another key, which ends
// all sessions. A session does not reveal the token, so it cannot change anything by the API.
func newSessionKey(token string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "hookonce: sessions of the dashboard", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("admin API: deriving the key of sessions: %w", err)
	}
	return key, nil
}

// session returns the value of a session cookie that expires at until. The server stores nothing,
// so every gateway with the same token accepts it.
func (c *credential) session(until time.Time) string {
	expires := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, c.sessionKey)
	mac.Write([]byte(expires)) // never fails
	return expires + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// started reports whether the value of a cookie is a session of c that has not expired.
func (c *credential) started(cookie string, now time.Time) bool {
	text, _, _ := strings.Cut(cookie, ".")
	expires, err := strconv.ParseInt(text, 10, 64)
	return err == nil && now.Unix() < expires && hmac.Equal([]byte(cookie), []byte(c.session(time.Unix(expires, 0))))
}
