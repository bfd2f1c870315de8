package send

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/dial"
)

// CheckURL returns an error unless raw is an http or https URL with a host and without nonsense,
// user name and password: the signature authenticates us, and credentials would appear wherever
// URLs are shown. The error never quotes raw.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// IsPrivate reports whether a URL that CheckURL accepts names an address that Target.AllowPrivate allows. It
// knows addresses and localhost; other names are looked at when they are dialled.
func IsPrivate(raw string) bool {
	u, err := parseURL(raw)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return dial.Always(addr) == nil && dial.Public(addr) != nil
}

// parseURL does not quote the URL in errors: any part of it may be a secret.
func parseURL(raw string) (*url.URL, error) {
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("the URL holds a space or a control character; in a path or query, write a space as %20")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("this is not a URL; write it as https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("the URL must not hold a user name or password; messages to a destination are signed with its secret")
	case strings.Contains(raw, "#"):
		return nil, errors.New("the URL has a fragment (#...), which is never sent")
	case !ValidHost(u.Hostname()):
		return nil, errors.New("the host of the URL is neither a name nor an address")
	case strings.HasSuffix(u.Host, ":"):
		return nil, errors.New("the URL has a colon without a port")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("the port of the URL must be from 1 to 65535")
		}
	}
	return u, nil
}

// ValidHost reports whether host is an IP address or may be the name of a host. A name that ends in
// a number is taken for an address by many programs, and is none.
func ValidHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	const maxName, maxLabel = 253, 63
	host = strings.TrimSuffix(host, ".")
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notInHost) {
			return false
		}
	}
	return len(host) <= maxName && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// notInHost allows underscores, which names in containers have, and all characters outside ASCII.
func notInHost(r rune) bool {
	isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return r < 0x80 && !isLetter && (r < '0' || r > '9') && r != '-' && r != '_'
}
