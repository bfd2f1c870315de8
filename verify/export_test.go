package verify

import "crypto/x509"

// TrustOnly has v trust certificates that chain to pool, in place of the system's
// roots. It must be called before v is used.
func (v *Verifier) TrustOnly(pool *x509.CertPool) { v.keys.roots = pool }
