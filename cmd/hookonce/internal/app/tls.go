package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/certs"
	"github.com/hookonce/hookonce/internal/metrics"
)

// openCertificates opens the certificates of the public listener. It returns nil without the setting
// tls. Files that cannot be used, and a folder that others can enter, are errors. An authority is asked
// later, because its trouble must not stop the gateway.
func openCertificates(o *Options, m *metrics.Metrics) (certs.Keeper, error) {
	s := &o.Settings.TLS
	if !s.Enabled() {
		return nil, nil
	}
	watch := certs.Watch{Log: o.Logger, Holds: m.Certificate, Failed: m.CertificateFailed}
	if s.Cert != "" {
		m.ExpectTLS("")
		return certs.OpenFiles(s.Cert, s.Key, watch)
	}
	m.ExpectTLS(s.Hosts...)
	if err := makePrivateFolder(s.Folder); err != nil {
		return nil, Errorf("tls.folder: %w", err).
			Try(fmt.Sprintf("it holds private keys: chmod 700 %s, as its owner, or choose another folder", s.Folder))
	}
	return certs.OpenACME(certs.ACME{
		Hosts: s.Hosts, Email: s.Email, Directory: s.Directory, Folder: s.Folder, UserAgent: "hookonce/" + o.Version,
	}, watch)
}

// CheckTLS checks the files of tls.cert and tls.key. It returns the key at fault, cert or key, and an
// error without its path.
func CheckTLS(cert, key string) (string, error) {
	_, err := certs.ReadPair(cert, key)
	if fault, ok := errors.AsType[*certs.Error](err); ok {
		return fault.Setting, &Error{fault.Err, fault.Remedy}
	}
	return "cert", err
}

// encrypt has server speak TLS, with HTTP/1.1 only. failed is called for each failed handshake.
func encrypt(server *http.Server, keeper certs.Keeper, failed func()) {
	server.TLSConfig = keeper.Config()
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.ErrorLog.SetOutput(&handshakes{server.ErrorLog.Writer(), failed})
}

// handshakes counts the failed handshakes among the lines that net/http logs.
type handshakes struct {
	io.Writer
	failed func()
}

func (h *handshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		h.failed()
	}
	return h.Writer.Write(line)
}
