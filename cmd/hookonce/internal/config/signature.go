package config

import (
	"slices"
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

// verifier reads how the sender signs. It returns nil if the settings are wrong.
func (r *sourceReader) verifier(s *hookonce.Source, n *node, m mapping, spec *provider.Spec) (*verify.Verifier, verify.Scheme) {
	signature, timestamp, params := m.get("signature"), m.get("timestamp"), m.get("params")
	before := len(r.faults)
	var scheme verify.Scheme
	if token := m.get("token"); token != nil && spec.Name != provider.Token {
		r.faultHint(token, "use provider token", "provider %s takes no token", spec.Name)
	}
	if len(spec.Schemes) == 0 {
		scheme = r.ownScheme(s, n, m, spec)
	} else {
		if signature != nil {
			r.faultHint(signature, "use provider hmac to describe a sender", "provider %s has its own signature", spec.Name)
		}
		scheme = r.presetScheme(s, n, m.get("scheme"), spec)
		if scheme.Family == "" {
			r.params(s, n, params, paramsOfAll(spec), spec)
			return nil, scheme
		}
		r.tolerance(s, timestamp, &scheme, spec)
	}
	r.params(s, n, params, &scheme, spec)
	if len(r.faults) > before {
		return nil, scheme
	}
	return r.compileScheme(scheme, func(field string) *node {
		switch {
		case spec.Name == provider.Token:
			return nodeFor(n, m.get("token"), "token."+field)
		case strings.HasPrefix(field, "timestamp."):
			return nodeFor(n, timestamp, field)
		case strings.HasPrefix(field, "params."):
			return nodeFor(n, params, field)
		case field == "signature_keys":
			field = "keys"
		}
		return nodeFor(n, signature, "signature."+field)
	}), scheme
}

// paramsOfAll returns a scheme with the parameters of all schemes of spec, all optional. It serves
// to find mistakes in the parameters while the scheme is unknown.
func paramsOfAll(spec *provider.Spec) *verify.Scheme {
	all := &verify.Scheme{}
	for _, s := range append(slices.Clone(spec.Schemes), verify.Scheme{Params: spec.Params}) {
		for _, p := range s.Params {
			p.Need = verify.NeedOptional
			all.Params = append(all.Params, p)
		}
	}
	return all
}

// ownScheme reads the scheme of a source whose provider has no schemes.
func (r *sourceReader) ownScheme(s *hookonce.Source, n *node, m mapping, spec *provider.Spec) verify.Scheme {
	if named := m.get("scheme"); named != nil {
		r.fault(named, "provider %s has no schemes; the source describes its own", spec.Name)
	}
	if spec.Name == provider.Token {
		return r.tokenScheme(s, n, m)
	}
	var scheme verify.Scheme
	signature := m.get("signature")
	if signature == nil {
		r.faultHint(n, `as signature: {header: X-Signature, algorithm: sha256, encoding: hex, content: "{body}"}`,
			"provider %s needs signature, which says how the sender signs", spec.Name)
		return scheme
	}
	sm := r.mapping(signature, signatureKeys...)
	for key, field := range map[string]*string{
		"header": &scheme.Header, "at": &scheme.At, "algorithm": &scheme.Algorithm, "encoding": &scheme.Encoding, "prefix": &scheme.Prefix,
		"content": &scheme.Content, "format": &scheme.Format, "separator": &scheme.Separator, "secret_encoding": &scheme.SecretEncoding,
	} {
		*field, _ = r.text(sm.get(key))
	}
	scheme.Family = verify.FamilyOf(scheme.Algorithm)
	scheme.MoreHeaders, scheme.SignatureKeys = r.words(sm.get("more_headers")), r.words(sm.get("keys"))
	scheme.PrefixOptional = r.boolean(sm.get("prefix_optional"))
	if timestamp := m.get("timestamp"); timestamp != nil {
		tm := r.mapping(timestamp, timestampKeys...)
		scheme.Timestamp = &verify.Timestamp{Tolerance: r.duration(tm.get("tolerance"), 1, maxAge)}
		scheme.Timestamp.At, _ = r.text(tm.get("at"))
		scheme.Timestamp.Format, _ = r.text(tm.get("format"))
		if tm.node != nil && tm.get("at") == nil {
			r.fault(timestamp, "at is missing: where the time of signing stands, as header:X-Timestamp")
		}
	}
	s.Signature = &scheme
	return scheme
}

// presetScheme returns the provider's scheme that the source names, or the default scheme. It
// returns the zero Scheme if there is none.
func (r *sourceReader) presetScheme(s *hookonce.Source, source, n *node, spec *provider.Spec) verify.Scheme {
	id, ok := r.text(n)
	if ok && id == "" {
		r.fault(n, "the value is empty; leave the key out for the provider's default")
	}
	if n != nil && id == "" {
		return verify.Scheme{}
	}
	scheme, err := spec.ChooseScheme(id)
	switch {
	case err != nil && n == nil:
		r.wrong(nodeFor(source, nil, "scheme"), err)
	case err != nil:
		r.wrong(n, err)
	}
	s.Scheme = id
	return scheme
}

// tolerance reads timestamp.tolerance, the only key of timestamp that a source of a preset may set.
func (r *sourceReader) tolerance(s *hookonce.Source, n *node, scheme *verify.Scheme, spec *provider.Spec) {
	m := r.mapping(n, timestampKeys...)
	for _, key := range []string{"at", "format"} {
		if value := m.get(key); value != nil {
			r.fault(value, "it is fixed for provider %s; only tolerance can be set", spec.Name)
		}
	}
	value := m.get("tolerance")
	if s.Tolerance = r.duration(value, 1, maxAge); s.Tolerance == 0 {
		return
	}
	if scheme.Timestamp == nil {
		r.fault(value, "provider %s signs no time, so there is no tolerance to set", spec.Name)
		return
	}
	timestamp := *scheme.Timestamp // the catalog's Timestamp is shared
	timestamp.Tolerance = s.Tolerance
	scheme.Timestamp = &timestamp
}

// givenSecrets are the secrets and keys of a source, not yet checked against the scheme.
type givenSecrets struct {
	list, public, ack *node
	items             []*node // the items of list that hold a secret
	secrets           []Secret
	key, ackKey       Secret
}

func (r *sourceReader) readSecrets(m mapping) givenSecrets {
	g := givenSecrets{list: m.get("secrets"), public: m.get("key"), ack: m.get("ack_key")}
	items := r.list(g.list)
	if g.list != nil && len(items) == 0 && (g.list.kind == kindSequence || g.list.kind == kindNull) {
		r.fault(g.list, "the list is empty")
	}
	for _, item := range items {
		if secret, ok := r.secret(item); ok {
			g.items, g.secrets = append(g.items, item), append(g.secrets, secret)
		}
	}
	g.key, _ = r.publicKey(g.public)
	g.ackKey, _ = r.secret(g.ack)
	return g
}

// name records the variables and files of a source.
func (r *sourceReader) name(source string, g givenSecrets, m mapping) {
	named := Named{
		URL: m.get("url").reference(), EventID: m.get("event").child("id").reference(),
		SignatureHeader: m.get("signature").child("header").reference(), TokenAt: m.get("token").child("at").reference(),
	}
	if g.list != nil && len(g.list.items) > 0 {
		named.Secret = g.list.items[0].reference()
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

// secrets checks the given secrets and keys with v, whose scheme belongs to spec.
func (r *sourceReader) secrets(s *hookonce.Source, n *node, g givenSecrets, v *verify.Verifier, scheme *verify.Scheme, spec *provider.Spec) {
	if !v.NeedsKeys() {
		for _, given := range []*node{g.list, g.public} {
			if given != nil {
				r.fault(given, "provider %s is unsigned and has none", s.Provider)
			}
		}
		return
	}
	if g.list == nil && g.public == nil {
		r.checkKeyless(s, n, v, scheme, spec)
		return
	}
	var secrets []string
	for i, secret := range g.secrets {
		if r.checkKey(g.items[i], v, secret) {
			secrets = append(secrets, string(secret))
		}
	}
	if len(secrets) > 0 {
		s.Secrets = hookonce.StaticSecrets(secrets...)
	}
	if g.public != nil && !v.PublicKey() {
		r.faultHint(g.public, "use secrets", "the sender signs with a shared secret and has no public key")
	} else if g.key != "" && r.checkKey(g.public, v, g.key) {
		s.Key = string(g.key)
	}
}

// checkKeyless checks a source with neither secrets nor key.
func (r *sourceReader) checkKeyless(s *hookonce.Source, n *node, v *verify.Verifier, scheme *verify.Scheme, spec *provider.Spec) {
	switch {
	case v.FetchesKeys() || spec.DeliversSecret():
	case scheme.Keys != nil && scheme.Keys.Unset(scheme) != nil:
		p := scheme.Keys.Unset(scheme)
		r.faultHint(nodeFor(n, nil, "params."+p.Name), p.About, "missing; the provider's keys cannot be fetched without it: set it, or set key")
	case v.PublicKey():
		r.faultHint(n, "as key: file:/path/to/key.pem", "the source has no key, the sender's public key")
	default:
		r.faultHint(n, `as secrets: ["${`+strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))+`_SECRET}"]`, "the source has no secrets")
	}
}

// ackKey checks the key that signs the answers.
func (r *sourceReader) ackKey(s *hookonce.Source, n *node, g givenSecrets, spec *provider.Spec) {
	signature := spec.AckSignature()
	switch {
	case signature == nil && g.ack != nil:
		r.faultHint(g.ack, "leave it out", "provider %s does not expect signed answers", spec.Name)
	case signature == nil:
	case g.ack == nil:
		r.warn(nodeFor(n, nil, "ack_key"), "it is not set, so answers are not signed: %s", signature.Without)
		r.warnings[len(r.warnings)-1].AtStart = true
	case g.ackKey != "":
		if _, err := signature.Signer(string(g.ackKey)); err != nil {
			r.fault(g.ack, "%s", err) // errors never hold the key
			return
		}
		s.AckKey = string(g.ackKey)
	}
}
