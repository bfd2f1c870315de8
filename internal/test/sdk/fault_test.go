package sdk

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// plants holds the faults that an entry of the catalog may have. Each changes a scheme, or leaves
// it as it is if the scheme has no such field.
var plants = map[string]func(*verify.Scheme){
	"another header": func(s *verify.Scheme) {
		if s.Header == "" {
			return
		}
		wrong := s.Header + "-X"
		if s.Timestamp != nil {
			t := *s.Timestamp
			t.At = strings.ReplaceAll(t.At, "header:"+s.Header, "header:"+wrong)
			s.Timestamp = &t
		}
		s.Header = wrong
	},
	"another encoding": func(s *verify.Scheme) {
		if s.Family == verify.FamilyHMAC || s.Family == verify.FamilySignature || s.Family == verify.FamilyDigest {
			s.Encoding = other(cmp.Or(s.Encoding, verify.EncodingHex), verify.EncodingHex, verify.EncodingBase64)
		}
	},
	"another hash": func(s *verify.Scheme) {
		if s.Family == verify.FamilyHMAC {
			s.Algorithm = other(s.Algorithm, verify.AlgorithmSHA512, verify.AlgorithmSHA256)
		}
	},
	"another content": func(s *verify.Scheme) {
		if s.Family != verify.FamilyHMAC && s.Family != verify.FamilySignature && s.Family != verify.FamilyJWS {
			return
		}
		s.Content = "x" + cmp.Or(s.Content, "{body}")
	},
	"another prefix": func(s *verify.Scheme) {
		if s.Family == verify.FamilyHMAC && (s.Format == "" || s.Format == verify.FormatPlain) && s.Header != "" {
			s.Prefix += "x"
		}
	},
	"another form of the secret": func(s *verify.Scheme) {
		switch {
		case s.Family == verify.FamilyStandardWebhooks && s.Algorithm != verify.AlgorithmEd25519:
			s.SecretEncoding = verify.SecretRaw
		case s.Family == verify.FamilyHMAC:
			s.SecretEncoding = other(s.SecretEncoding, verify.SecretSHA1, verify.SecretRaw)
		}
	},
	timeForm: func(s *verify.Scheme) {
		if s.Timestamp != nil && s.Family != verify.FamilyStandardWebhooks && !strings.HasPrefix(s.Timestamp.At, "jwt:") {
			t := *s.Timestamp
			t.Format = other(t.Format, verify.TimeUnixMS, verify.TimeUnix)
			s.Timestamp = &t
		}
	},
	"another separator": func(s *verify.Scheme) {
		if s.Format == verify.FormatKV {
			s.Separator = other(s.Separator, ";", "&")
		}
	},
	"a long tolerance": func(s *verify.Scheme) {
		if s.Timestamp != nil {
			t := *s.Timestamp
			t.Tolerance = 24 * time.Hour
			s.Timestamp = &t
		}
	},
	"another claim": func(s *verify.Scheme) {
		if s.JWT != nil && len(s.JWT.Claims) > 0 {
			jwt := *s.JWT
			jwt.Claims = slices.Clone(jwt.Claims)
			for i := range jwt.Claims {
				jwt.Claims[i].Name += "x"
			}
			s.JWT = &jwt
		}
	},
}

// timeForm names the plant that an SDK without a clock cannot notice in requests of send.
const timeForm = "another form of the time"

// other returns a, or b if the value is a.
func other(value, a, b string) string {
	if value == a {
		return b
	}
	return a
}

// TestPlantedFaults plants faults into the catalog's entry of every subject, one after the other.
// The checks must fail for each.
func TestPlantedFaults(t *testing.T) {
	ran, noticed := map[string]bool{}, map[string]bool{} // providers
	for _, s := range subjects {
		for _, name := range slices.Sorted(maps.Keys(plants)) {
			t.Run(s.Name()+"/"+name, func(t *testing.T) {
				ran[s.Provider] = true
				planted := false
				g, err := newGuard(s, func(scheme *verify.Scheme) {
					before := *scheme
					plants[name](scheme)
					planted = !same(&before, scheme)
				})
				switch {
				case !planted:
					t.Skip("the scheme has no such field")
				case errors.Is(err, errCompile):
					t.Skip(err)
				case name == timeForm && s.Unchecked["age"] != "" && s.Sign == nil && s.Vectors == nil:
					t.Skip("the SDK does not read the time: " + s.Unchecked["age"])
				case err != nil: // the key does not fit
					noticed[s.Provider] = true
					return
				}
				reason := s.Unchecked[name]
				for _, c := range g.checks() {
					if c.run() == nil {
						continue
					}
					if noticed[s.Provider] = true; reason != "" {
						t.Errorf("a check notices it; take out of unchecked: %s", reason)
					}
					return
				}
				if reason == "" {
					t.Error("no check notices it")
				}
			})
		}
	}
	if atLeast := min(5, len(ran)); len(noticed) < atLeast {
		t.Errorf("a fault was noticed in the entries of %d providers, want %d or more", len(noticed), atLeast)
	}
}

// same reports whether two schemes agree in the fields that plants change.
func same(a, b *verify.Scheme) bool {
	return a.Header == b.Header && a.Encoding == b.Encoding && a.Algorithm == b.Algorithm && a.Content == b.Content &&
		a.Prefix == b.Prefix && a.Separator == b.Separator && a.SecretEncoding == b.SecretEncoding && a.Timestamp == b.Timestamp && a.JWT == b.JWT
}
