package config

import (
	"cmp"
	"errors"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// The defaults of TLS.
const (
	// DefaultDirectory is the ACME directory of Let's Encrypt.
	DefaultDirectory = "https://acme-v02.api.letsencrypt.org/directory"
	DefaultTLSFolder = "hookonce-tls"
)

// maxHosts bounds tls.hosts: each host has a certificate of its own, and series of its own.
const maxHosts = 100

// TLS are the certificates of Settings.Listen: from files, or by ACME. The zero value means plain
// HTTP.
type TLS struct {
	// Cert and Key are the paths of PEM files: a certificate with its intermediates, and its key.
	Cert, Key string

	// Hosts are the names to get certificates for by ACME, in lower case.
	Hosts     []string
	Email     string // for messages of the authority; may be ""
	Directory string // URL of the authority's ACME directory
	Folder    string // path of the folder for keys and certificates
}

// Enabled reports whether the listener speaks TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || len(t.Hosts) > 0 }

// Equal reports whether both are the same.
func (t *TLS) Equal(other *TLS) bool {
	return t.Cert == other.Cert && t.Key == other.Key && slices.Equal(t.Hosts, other.Hosts) &&
		t.Email == other.Email && t.Directory == other.Directory && t.Folder == other.Folder
}

// tls reads the key tls. An empty one is a fault, because its author does not expect plain HTTP.
func (l *loader) tls(n *node) TLS {
	if n == nil {
		return TLS{}
	}
	m := l.mapping(n, "hosts", "email", "directory", "folder", "cert", "key")
	hosts, cert, key := m.get("hosts"), m.get("cert"), m.get("key")
	switch {
	case m.node == nil && n.kind != kindNull: // has its fault
	case hosts == nil && cert == nil && key == nil:
		l.fault(n, "name hosts, to get certificates by ACME, or cert and key, to read them from files")
	case hosts == nil:
		return l.tlsFiles(m, cert, key)
	case cert != nil || key != nil:
		l.fault(hosts, "hosts gets certificates by ACME, and cert and key read them from files; keep one of the two")
	default:
		return TLS{
			Hosts:     l.tlsHosts(hosts),
			Email:     l.email(m.get("email")),
			Directory: cmp.Or(l.directory(m.get("directory")), DefaultDirectory),
			Folder:    cmp.Or(l.path(m.get("folder")), DefaultTLSFolder),
		}
	}
	return TLS{}
}

func (l *loader) tlsFiles(m mapping, cert, key *node) TLS {
	for _, name := range []string{"email", "directory", "folder"} {
		if n := m.get(name); n != nil {
			l.fault(n, "it belongs to hosts; with cert and key no authority is asked")
		}
	}
	switch {
	case cert == nil:
		l.fault(key, "the key needs its certificate: set tls.cert, too")
	case key == nil:
		l.fault(cert, "the certificate needs its key: set tls.key, too")
	}
	files := TLS{Cert: l.path(cert), Key: l.path(key)}
	if files.Cert == "" || files.Key == "" {
		return TLS{} // has its fault
	}
	if l.checkTLS != nil {
		if name, err := l.checkTLS(files.Cert, files.Key); err != nil {
			at := map[string]*node{"cert": cert, "key": key}[name]
			var hinter interface{ Hint() string }
			hint := ""
			if errors.As(err, &hinter) {
				hint = hinter.Hint()
			}
			l.faultHint(at, hint, "%s", err)
		}
	}
	return files
}

// path reads the path of a file or folder; "" if it is absent or has a fault. It never quotes the
// value, which may be the key itself.
func (l *loader) path(n *node) string {
	text, ok := l.text(n)
	switch {
	case !ok:
		return ""
	case strings.TrimSpace(text) == "":
		l.fault(n, "the path is empty")
		return ""
	case strings.Contains(text, "-----BEGIN"):
		l.fault(n, "this must be the path of a file, but is the content of one")
		return ""
	case strings.HasPrefix(text, "file:"):
		l.fault(n, "write the path without file:")
		return ""
	}
	return text
}

func (l *loader) tlsHosts(n *node) []string {
	var hosts []string
	for _, item := range l.list(n) {
		text, ok := l.text(item)
		if !ok {
			continue
		}
		host := strings.ToLower(text)
		switch fault := faultOfHost(host); {
		case fault != "":
			l.fault(item, "%s %s", item.shown(), fault)
		case slices.Contains(hosts, host):
			l.fault(item, "%s is there twice", item.shown())
		default:
			hosts = append(hosts, host)
		}
	}
	switch {
	case n.kind == kindNull || n.kind == kindSequence && len(n.items) == 0:
		l.fault(n, "there is no host; name the hosts of the public URLs, as [hooks.example.com]")
	case len(n.items) > maxHosts:
		l.fault(n, "there are more than %d hosts; use cert and key, or a proxy", maxHosts)
	}
	return hosts
}

// faultOfHost returns the reason why no certificate can be had by ACME for a host, in lower case, or
// "".
func faultOfHost(host string) string {
	if strings.HasPrefix(host, "*.") {
		return "is a wildcard, which needs a challenge by DNS; name each host, or use cert and key"
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "is an address; certificates by ACME are for names"
	}
	if strings.ContainsAny(host, ":/") {
		return "is not a name alone; write it without scheme, port and path"
	}
	const maxName, maxLabel = 253, 63
	labels := strings.Split(host, ".")
	for _, label := range labels {
		switch {
		case strings.ContainsFunc(label, func(r rune) bool { return r >= 0x80 }):
			return "has letters beyond ASCII; write it as in DNS, with xn--"
		case label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-"):
			return "is not the name of a host"
		}
	}
	if len(labels) < 2 || len(host) > maxName || strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "is not the full name of a host, as hooks.example.com"
	}
	return ""
}

func (l *loader) email(n *node) string {
	text, ok := l.text(n)
	if !ok {
		return ""
	}
	address, err := mail.ParseAddress(text)
	if err != nil || address.Address != text || strings.ContainsAny(text, "?,%\"") {
		l.fault(n, "%s is not an email address; write it as ops@example.com", n.shown())
		return ""
	}
	return text
}

// directory reads the URL of an ACME directory.
func (l *loader) directory(n *node) string {
	text, ok := l.text(n)
	if !ok {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		l.fault(n, "%s is not the https:// URL of an ACME directory; for trials: https://acme-staging-v02.api.letsencrypt.org/directory", n.shown())
		return ""
	}
	return text
}
