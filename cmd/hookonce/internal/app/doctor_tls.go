package app

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/certs"
)

// soonExpired is the remaining validity below which Doctor warns, unless a sixth of the lifetime is
// shorter.
const soonExpired = 14 * 24 * time.Hour

// checkTLS reports the certificates that the gateway uses, or will use.
func (d *doctor) checkTLS() Check {
	s, c := &d.settings.TLS, Check{Name: "tls", Status: StatusOK}
	if s.Cert != "" {
		pair, err := certs.ReadPair(s.Cert, s.Key)
		if err != nil {
			return failed(c.Name, err)
		}
		c.judgeCertificate(pair.Names(), pair.Leaf, "put a new certificate into the files; the gateway takes it without a restart")
		return c
	}
	for _, host := range s.Hosts {
		status, err := certs.Stored(s.Folder, s.Directory, host)
		if err != nil {
			return failed(c.Name, err)
		}
		switch {
		case status.Leaf != nil:
			c.judgeCertificate(host, status.Leaf, "look at the log of the gateway; it renews certificates while it runs")
		case status.Failure != "":
			c.worsen(StatusFailure, "")
			c.Seen = append(c.Seen, host+": there is no certificate")
		default:
			c.worsen(StatusWarning, "start the gateway, which gets the certificates")
			c.Seen = append(c.Seen, host+": there is no certificate yet")
		}
		if status.Failure != "" {
			c.worsen(StatusWarning, status.Remedy)
			c.Seen = append(c.Seen, fmt.Sprintf("the try at %s failed: %s", status.At, status.Failure))
		}
	}
	if _, isSQLite := d.settings.SQLitePath(); !isSQLite {
		c.Seen = append(c.Seen, "tls.hosts is for one gateway; several gateways need tls.cert and tls.key, or a proxy")
	}
	return c
}

// judgeCertificate adds the expiry of a certificate to c.
func (c *Check) judgeCertificate(names string, leaf *x509.Certificate, remedy string) {
	left := time.Until(leaf.NotAfter)
	date := leaf.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		c.worsen(StatusFailure, remedy)
		c.Seen = append(c.Seen, fmt.Sprintf("%s: the certificate has expired on %s", names, date))
		return
	case time.Now().Before(leaf.NotBefore):
		c.worsen(StatusFailure, "check the clock of this machine, and the certificate")
		c.Seen = append(c.Seen, fmt.Sprintf("%s: the certificate is not valid before %s", names, leaf.NotBefore.UTC().Format(time.RFC3339)))
		return
	case left < min(soonExpired, leaf.NotAfter.Sub(leaf.NotBefore)/6):
		c.worsen(StatusWarning, remedy)
	}
	c.Seen = append(c.Seen, fmt.Sprintf("%s: the certificate expires on %s, in %s", names, date, atLeast(left)))
}

// atLeast returns d in whole days, or in hours if it is short.
func atLeast(d time.Duration) string {
	if hours := int(d.Hours()); hours < 48 {
		return fmt.Sprintf("%d hours", hours)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// worsen sets the status if it is worse than that of c, and the remedy if c has none.
func (c *Check) worsen(status Status, remedy string) {
	if c.Status == StatusOK || status == StatusFailure {
		c.Status = status
	}
	if c.Remedy == "" {
		c.Remedy = remedy
	}
}
