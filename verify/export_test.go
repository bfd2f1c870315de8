package verify

import "crypto/x509"

// TrustOnly makes v trust certificates that chain to pool, instead of the system's roots. Call it
// before using v.
func (v *Verifier) TrustOnly(pool *x509.CertPool) { v.keys.roots = pool }
