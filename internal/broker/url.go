// Package broker is the common part of the Senders for message brokers: their URLs, the rules for dialling, and a
// connection that concurrent calls share.
package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/settingfile"
)

// ConnectTimeout bounds dialling one host, and the handshakes after it.
const ConnectTimeout = 5 * time.Second

// CA is the parameter of every URL for a file with the authorities that sign the broker's certificate.
const CA = "ca"

// Form describes the URLs of one kind of broker.
type Form struct {
	Schemes map[string]string // with the default port of each
	Example string
	Query   []string // permitted parameters, apart from ca and Files
	Files   []string // permitted parameters that name a file
	Shown   []string // those of them that Address shows
}

// URL says where a broker is: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/PATH][?NAME=VALUE&...].
type URL struct {
	Scheme string
	User   *url.Userinfo // nil without one
	Hosts  []string      // HOST:PORT each, at least one
	Path   string        // unescaped, without the first slash

	escaped string // the path as it was written
	query   map[string]string
	shown   []string
	files   []string
}

// Parse reads raw. The error never quotes it, because any part of it may be a secret.
func (f *Form) Parse(raw string) (*URL, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	if _, known := f.Schemes[scheme]; !found || !known {
		return nil, fmt.Errorf("the URL must begin with %s", strings.Join(slices.Sorted(maps.Keys(f.Schemes)), ":// or ")+"://")
	}
	if strings.Contains(raw, "#") {
		return nil, errors.New("the URL has a fragment (#...), which is never used; write # as %23")
	}
	// net/url knows no list of hosts. It gets the first one.
	authority := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority = rest[:end]
	}
	// A slash in a password ends the authority too early: the rest of the password would be shown as the path.
	if strings.Contains(rest[len(authority):], "@") {
		return nil, errors.New("the URL has an @ behind its first / or ?; percent-encode the characters /, ? and @ of a user, password or token")
	}
	hosts := strings.Split(authority[strings.LastIndexByte(authority, '@')+1:], ",")
	first := strings.TrimSuffix(authority, strings.Join(hosts[1:], ","))
	u, err := url.Parse(scheme + "://" + strings.TrimSuffix(first, ",") + rest[len(authority):])
	if err != nil {
		return nil, fmt.Errorf("this is not a URL; write it as %s, and percent-encode special characters of a password", f.Example)
	}
	out := &URL{Scheme: scheme, User: u.User, Path: strings.TrimPrefix(u.Path, "/"), escaped: u.EscapedPath(), shown: f.Shown, files: f.Files}
	for _, host := range hosts {
		address, err := hostPort(host, f.Schemes[scheme])
		if err != nil {
			return nil, err
		}
		out.Hosts = append(out.Hosts, address)
	}
	out.query, err = f.parameters(u.RawQuery)
	return out, err
}

// CheckFiles reads the files that u names. So a missing file is found while the settings are checked, and not only
// when messages wait. The error quotes the name of the file.
func (u *URL) CheckFiles() error {
	for _, name := range u.files {
		if u.query[name] != "" {
			if _, err := u.ReadFile(name); err != nil {
				return err
			}
		}
	}
	_, err := u.TLS()
	return err
}

// maxFile bounds the size of a file that a URL names, in bytes.
const maxFile = 1 << 20

// ReadFile reads the file that the parameter name of u names.
func (u *URL) ReadFile(name string) ([]byte, error) {
	file, err := settingfile.Read(u.query[name], maxFile)
	if err != nil {
		return nil, fmt.Errorf("the file of the URL's %s, %s, cannot be read: %w", name, u.query[name], err)
	}
	return file.Data, nil
}

// hostPort returns HOST[:PORT] with a port.
func hostPort(host, port string) (string, error) {
	u, err := url.Parse("//" + host)
	if err != nil || !send.ValidHost(u.Hostname()) {
		return "", errors.New("a host of the URL is neither a name nor an address")
	}
	if strings.HasSuffix(u.Host, ":") {
		return "", errors.New("the URL has a colon without a port")
	}
	if u.Port() != "" {
		port = u.Port()
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errors.New("the port of the URL must be from 1 to 65535")
		}
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

func (f *Form) parameters(raw string) (map[string]string, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errors.New("the query of the URL cannot be read")
	}
	permitted := slices.Concat(f.Query, f.Files, []string{CA})
	out := make(map[string]string)
	for name, values := range query {
		if !slices.Contains(permitted, name) || len(values) != 1 || values[0] == "" {
			return nil, fmt.Errorf("the query of the URL may hold only %s, each once and not empty", strings.Join(permitted, ", "))
		}
		out[name] = values[0]
	}
	return out, nil
}

// Get returns a parameter, or "".
func (u *URL) Get(name string) string { return u.query[name] }

// Address returns the URL without credentials and files.
func (u *URL) Address() string {
	shown := make(url.Values)
	for _, name := range u.shown {
		if value := u.query[name]; value != "" {
			shown.Set(name, value)
		}
	}
	out := u.Scheme + "://" + strings.Join(u.Hosts, ",") + u.escaped
	if len(shown) > 0 {
		out += "?" + shown.Encode()
	}
	return out
}

// String returns the result of Address, so that a URL that is printed shows no credentials.
func (u *URL) String() string { return u.Address() }

// GoString returns the result of Address.
func (u *URL) GoString() string { return u.Address() }

// Equal reports whether u and other are the same, credentials included.
func (u *URL) Equal(other *URL) bool { return reflect.DeepEqual(u, other) }

// TLS returns the configuration for TLS with the broker. Each call reads the file of authorities, so a renewed file counts.
func (u *URL) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if u.query[CA] != "" {
		pem, err := u.ReadFile(CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("the file of the URL's ca holds no certificate in PEM form")
		}
	}
	return config, nil
}

// Dialer returns a dialer for addresses that a broker may have. It checks every address when it dials it, also those
// that a broker tells of the other servers in its cluster.
func Dialer(allowPrivate bool) *net.Dialer {
	check := dial.Check(dial.Public)
	if allowPrivate {
		check = dial.Always
	}
	return &net.Dialer{Timeout: ConnectTimeout, ControlContext: check.Control}
}

// Explain says what to do about an error of the network or of TLS. It returns nil for others.
func Explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var dialling *net.OpError
	switch {
	case errors.Is(err, dial.ErrAddress):
		return fmt.Errorf("the broker's address must not be dialled; in Go, AllowPrivate allows private ones: %w", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the broker's certificate is not signed by a known authority; name its file in the URL, as ?ca=FILE: %w", err)
	case errors.As(err, &name):
		return fmt.Errorf("the broker's certificate is for another host; use its name in the URL: %w", err)
	case errors.As(err, &dialling):
		return fmt.Errorf("not connected to the broker; check that it is up and its address is right: %w", err)
	}
	return nil
}
