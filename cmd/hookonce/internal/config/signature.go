package config

import (
	"strings"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var (
	signatureKeys = []string{
		"header", "more_headers", "at", "algorithm", "encoding", "prefix", "prefix_optional", "content", "format", "separator", "keys",
		"secret_encoding",
	}
	timestampKeys = []string{"at", "format", "tolerance"}
)

// scheme reads how the sender signs.
func (r *sourceReader) scheme(s *hookonce.Source, m mapping) {
	signature, timestamp, token := m.get("signature"), m.get("timestamp"), m.get("token")
	before := len(r.faults)
	s.Scheme, s.URL, s.Params = r.word(m.get("scheme")), r.word(m.get("url")), r.params(m.get("params"))
	if s.Provider == provider.Token {
		s.Signature = r.tokenScheme(token)
	} else if signature != nil {
		s.Signature = r.ownScheme(signature)
	}
	tm := r.mapping(timestamp, timestampKeys...)
	s.Tolerance = r.duration(tm.get("tolerance"), 1, maxAge)
	spec, err := provider.Lookup(s.Provider)
	own := err == nil && len(spec.Schemes) == 0
	if own && s.Signature != nil && tm.node != nil {
		s.Signature.Timestamp, s.Tolerance = &verify.Timestamp{Tolerance: s.Tolerance}, 0
		s.Signature.Timestamp.At, _ = r.text(tm.get("at"))
		s.Signature.Timestamp.Format, _ = r.text(tm.get("format"))
	}
	r.broken[s.Name] = len(r.faults) > before
	switch {
	case err != nil: // the root reports it
	case s.Provider == provider.Token:
		for _, value := range []*node{signature, timestamp} {
			if value != nil {
				r.faultHint(value, "use provider hmac to describe a sender that signs", "provider %s signs nothing", provider.Token)
			}
		}
	case token != nil:
		r.faultHint(token, "use provider token", "provider %s takes no token", s.Provider)
	case !own:
		for _, key := range []string{"at", "format"} {
			if value := tm.get(key); value != nil {
				r.fault(value, "it is fixed for provider %s; only tolerance can be set", s.Provider)
			}
		}
	}
}

// ownScheme reads the scheme that a source describes.
func (r *sourceReader) ownScheme(n *node) *verify.Scheme {
	var scheme verify.Scheme
	m := r.mapping(n, signatureKeys...)
	for key, field := range map[string]*string{
		"header": &scheme.Header, "at": &scheme.At, "algorithm": &scheme.Algorithm, "encoding": &scheme.Encoding, "prefix": &scheme.Prefix,
		"content": &scheme.Content, "format": &scheme.Format, "separator": &scheme.Separator, "secret_encoding": &scheme.SecretEncoding,
	} {
		*field, _ = r.text(m.get(key))
	}
	scheme.Family = verify.FamilyOf(scheme.Algorithm)
	scheme.MoreHeaders, scheme.SignatureKeys = r.words(m.get("more_headers")), r.words(m.get("keys"))
	scheme.PrefixOptional = r.boolean(m.get("prefix_optional"))
	return &scheme
}

// params reads the parameters of a scheme.
func (r *sourceReader) params(n *node) map[string]string {
	if n != nil && n.kind != kindNull && n.kind != kindMapping {
		r.fault(n, "this must be a mapping of keys, but is %s", n.kind)
	}
	var params map[string]string
	for _, f := range n.children() {
		if value, ok := r.secret(f.value); ok {
			params = with(params, f.key, string(value))
		}
	}
	return params
}

// secrets reads the secrets and keys of a source.
func (r *sourceReader) secrets(s *hookonce.Source, m mapping) {
	if list := m.get("secrets"); list != nil {
		var secrets []string
		for _, item := range r.list(list) {
			secret, _ := r.secret(item)
			secrets = append(secrets, string(secret)) // also if it is unreadable, so that the others keep their numbers
		}
		s.Secrets = hookonce.StaticSecrets(secrets...)
	}
	key, _ := r.publicKey(m.get("key"))
	ackKey, _ := r.secret(m.get("ack_key"))
	s.Key, s.AckKey = string(key), string(ackKey)
}

// name records the variables and files of a source.
func (r *sourceReader) name(source string, m mapping) {
	named := Named{
		URL: m.get("url").reference(), EventID: m.get("event").child("id").reference(),
		SignatureHeader: m.get("signature").child("header").reference(), TokenAt: m.get("token").child("at").reference(),
	}
	if list := m.get("secrets"); list != nil && len(list.items) > 0 {
		named.Secret = list.items[0].reference()
	}
	for _, f := range m.get("params").children() {
		if reference := f.value.reference(); reference != "" {
			named.Params = with(named.Params, f.key, reference)
		}
	}
	if named.Secret+named.URL+named.SignatureHeader+named.TokenAt+named.EventID != "" || named.Params != nil {
		r.references = with(r.references, source, named)
	}
}

// with sets an entry of m, which may be nil.
func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = value
	return m
}

// children returns the fields of n, which may be nil.
func (n *node) children() []field {
	if n == nil {
		return nil
	}
	return n.fields
}

// child returns the value of a key of n, which may be nil; nil if there is none.
func (n *node) child(key string) *node {
	for _, f := range n.children() {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// reference returns the value of n if it names a variable or a file, and no more: ${NAME} without a
// default, or file:PATH. It returns "" otherwise.
func (n *node) reference() string {
	if n == nil {
		return ""
	}
	inside, isVariable := strings.CutPrefix(n.raw, "${")
	inside, closed := strings.CutSuffix(inside, "}")
	switch {
	case isVariable && closed && !n.literal && validVariable(inside):
		return n.raw
	case strings.HasPrefix(n.raw, "file:") && (n.literal || !strings.Contains(n.raw, "$")):
		return n.raw
	}
	return ""
}
