package metrics

import "time"

func (m *Metrics) makeOfTLS() {
	m.certificate = m.gauges("tls_certificate_expiry_timestamp_seconds",
		"When the certificate of the public listener expires, as Unix time; 0 while there is none.", "host")
	m.certificateFailures = m.counters("tls_certificate_failures_total",
		"Failures to get, to read or to store a certificate.", "host")
	m.handshakeErrors = m.counters("tls_handshake_errors_total", "Connections that ended in the TLS handshake.")
}

// ExpectTLS makes the metrics of a listener with TLS. The certificate of files has the host "".
func (m *Metrics) ExpectTLS(hosts ...string) {
	for _, host := range hosts {
		m.certificate.WithLabelValues(host)
		zero(m.certificateFailures, host)
	}
	zero(m.handshakeErrors)
}

// Certificate says until when the certificate of a host is valid; zero if there is none.
func (m *Metrics) Certificate(host string, until time.Time) {
	seconds := 0.0
	if !until.IsZero() {
		seconds = float64(until.Unix())
	}
	m.certificate.WithLabelValues(host).Set(seconds)
}

// CertificateFailed counts a failure to get, to read or to store a certificate.
func (m *Metrics) CertificateFailed(host string) { m.certificateFailures.WithLabelValues(host).Inc() }

// HandshakeFailed counts a connection that ended in the TLS handshake.
func (m *Metrics) HandshakeFailed() { m.handshakeErrors.WithLabelValues().Inc() }
