package cli

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// The facts that the catalog holds about a provider, for people and as the shapes of --json.
type (
	providerFacts struct {
		Name       provider.Name    `json:"name"`
		Title      string           `json:"title"`
		Docs       string           `json:"docs"`
		Evidence   evidenceFacts    `json:"evidence"`
		Schemes    []schemeFacts    `json:"schemes"` // the first is the default, unless it is weak
		Event      eventFacts       `json:"event"`
		Hint       eventFacts       `json:"hint"` // the unconfirmed locations
		HintNote   string           `json:"hint_note"`
		Handshakes []handshakeFacts `json:"handshakes"`
		Params     []paramFacts     `json:"params"` // of the handshakes
		Ack        *ackFacts        `json:"ack"`    // null: any 2xx
		Retry      retryFacts       `json:"retry"`
		Reconcile  reconcileFacts   `json:"reconcile"`
		MaxBody    int64            `json:"max_body"` // bytes; 0 for the default
		Notes      []string         `json:"notes"`
		Settings   string           `json:"settings"` // YAML to begin with
	}
	evidenceFacts struct {
		By     string `json:"by"`     // sdk, request, vector or documentation; "" for hmac, token, basic and none, which describe no provider
		Source string `json:"source"` // the package and its version, or where the request or vector is published
		Reason string `json:"reason"` // why no SDK judges the entry
	}
	schemeFacts struct {
		ID        string       `json:"id"`
		Family    string       `json:"family"`
		Default   bool         `json:"default"`
		Algorithm string       `json:"algorithm"` // "" if the family has none, or if it is a parameter
		At        string       `json:"at"`        // the location of the signature
		Content   string       `json:"content"`   // the signed content, as a template; "" if nothing is signed
		Tolerance string       `json:"tolerance"` // of the signed time; "" if no time is signed
		SignsURL  bool         `json:"signs_url"` // a source must then set url
		Secret    string       `json:"secret"`    // the setting that holds the secret or key, and its form
		KeysFrom  string       `json:"keys_from"` // where public keys are fetched; "" for none
		Params    []paramFacts `json:"params"`
		Weak      string       `json:"weak"`    // why it must be chosen by name
		Partial   string       `json:"partial"` // the parts of a request that are not signed
	}
	paramFacts struct {
		Name   string   `json:"name"`
		Need   string   `json:"need"` // signature, source, optional, or keys (for fetching keys)
		About  string   `json:"about"`
		Values []string `json:"values"` // the allowed values; empty for any
	}
	eventFacts struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Time     string `json:"time"`
		Batch    string `json:"batch"`
		Document string `json:"document"`
	}
	handshakeFacts struct {
		ID     string `json:"id"`
		Method string `json:"method"`
		About  string `json:"about"`
		Arm    bool   `json:"arm"` // only after hookonce sources arm
	}
	ackFacts struct {
		Status      int    `json:"status"`
		ContentType string `json:"content_type"`
		Body        string `json:"body"`
		SignedAt    string `json:"signed_at"` // the location of its signature, made with ack_key; "" for none
		Without     string `json:"without"`   // how the sender treats an unsigned answer
	}
	reconcileFacts struct {
		Lists  bool         `json:"lists"`  // its API lists the events, so that a source can reconcile
		Note   string       `json:"note"`   // the events that the list holds, or why there is none
		Keeps  string       `json:"keeps"`  // how long an event is listed; "" if unknown
		Params []paramFacts `json:"params"` // of reconcile.params
		Source string       `json:"source"` // where the list is documented
	}
	retryFacts struct {
		Window  string `json:"window"`  // how long; "" if unknown
		Timeout string `json:"timeout"` // for one answer; "" if unknown
		Note    string `json:"note"`

		Signed       string `json:"signed"` // "anew", "once" or "not documented"; "" if no time is signed or nothing retried
		SignedSource string `json:"signed_source"`
	}
)

// factsOf returns the facts that the catalog holds about a provider.
func factsOf(spec *provider.Spec) *providerFacts {
	f := &providerFacts{
		Name: spec.Name, Title: spec.Title, Docs: spec.Docs, Evidence: evidenceFacts(spec.Evidence),
		Schemes: []schemeFacts{}, Handshakes: []handshakeFacts{}, Params: factsOfParams(spec.Params),
		Event: eventFacts(spec.Event), Hint: eventFacts(spec.Hint), HintNote: spec.HintNote,
		Retry:   retryFacts{inSettings(spec.Retry.Window), inSettings(spec.Retry.Timeout), spec.Retry.Note, spec.Retry.Signed, spec.Retry.SignedSource},
		MaxBody: spec.MaxBody, Notes: append([]string{}, spec.Notes...), Reconcile: factsOfList(spec),
	}
	for i := range spec.Schemes {
		scheme := factsOfScheme(&spec.Schemes[i])
		scheme.Default = i == 0 && scheme.Weak == ""
		f.Schemes = append(f.Schemes, scheme)
	}
	for i := range spec.Handshakes {
		f.Handshakes = append(f.Handshakes, factsOfHandshake(&spec.Handshakes[i]))
	}
	if spec.Ack != nil {
		f.Ack = &ackFacts{
			Status: cmp.Or(spec.Ack.Status, 200), ContentType: cmp.Or(spec.Ack.ContentType, "text/plain"), Body: spec.Ack.Body,
		}
	}
	if signature := spec.AckSignature(); signature != nil {
		f.Ack.SignedAt, f.Ack.Without = signatureAt(&signature.Scheme), signature.Without
	}
	f.Settings = settingsOf(f)
	return f
}

// factsOfList says whether a source of the provider can reconcile.
func factsOfList(spec *provider.Spec) reconcileFacts {
	l := spec.List
	if l == nil {
		return reconcileFacts{Note: cmp.Or(spec.NoList, "it is not known that its API lists the events of its webhooks"), Params: []paramFacts{}}
	}
	return reconcileFacts{Lists: true, Note: l.Note, Keeps: l.Keeps, Params: factsOfParams(l.Params), Source: l.Source}
}

// knownBy returns the evidence for people, such as "its SDK (npm:orb-billing@6.11.0)".
func (e evidenceFacts) knownBy() string {
	text := provider.Evidence(e).String()
	if e.Source != "" {
		text += " (" + e.Source + ")"
	}
	return text
}

func factsOfScheme(s *verify.Scheme) schemeFacts {
	f := schemeFacts{
		ID: s.ID, Family: string(s.Family), Algorithm: algorithm(s), At: signatureAt(s), Content: content(s),
		Secret: whatSecret(s), Params: factsOfParams(s.Params), Weak: s.Weak, Partial: s.Partial, SignsURL: signsURL(s),
	}
	if s.Timestamp != nil {
		f.Tolerance = say.Setting(cmp.Or(s.Timestamp.Tolerance, verify.DefaultTolerance))
	}
	if s.Keys != nil {
		f.KeysFrom = keysFrom(s.Keys)
		for i := range f.Params {
			if p := &f.Params[i]; p.Need == verify.NeedOptional && fetchesWith(s.Keys, p.Name) {
				p.Need = needKeys
			}
		}
	}
	return f
}

// needKeys marks a parameter that is needed for fetching keys.
const needKeys = "keys"

func fetchesWith(k *verify.KeySource, param string) bool {
	texts := append(slices.Collect(maps.Values(k.Header)), k.URL, k.Body)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "{param:"+param+"}") })
}

func factsOfParams(params []verify.Param) []paramFacts {
	out := []paramFacts{}
	for _, p := range params {
		out = append(out, paramFacts{p.Name, cmp.Or(p.Need, verify.NeedSignature), p.About, append([]string{}, sortedNames(p.Sets)...)})
	}
	return out
}

// publicKey reports whether a scheme is verified with a public key.
func publicKey(s *verify.Scheme) bool {
	switch s.Family {
	case verify.FamilySignature, verify.FamilyJWS:
		return true
	case verify.FamilyStandardWebhooks:
		return s.Algorithm == verify.AlgorithmEd25519
	case verify.FamilyJWT:
		return s.JWT != nil && !slices.ContainsFunc(s.JWT.Algorithms, func(a string) bool { return strings.HasPrefix(a, "HS") })
	}
	return false
}

func algorithm(s *verify.Scheme) string {
	switch s.Family {
	case verify.FamilyHMAC:
		return "hmac-" + cmp.Or(s.Algorithm, verify.AlgorithmSHA256)
	case verify.FamilyDigest:
		return cmp.Or(s.Algorithm, verify.AlgorithmSHA256)
	case verify.FamilyStandardWebhooks:
		return cmp.Or(s.Algorithm, verify.AlgorithmHMACSHA256)
	case verify.FamilyJWT:
		if s.JWT != nil {
			return strings.Join(s.JWT.Algorithms, ", ")
		}
	}
	return s.Algorithm
}

func signatureAt(s *verify.Scheme) string {
	switch {
	case s.Family == verify.FamilyStandardWebhooks:
		return "header:webhook-signature"
	case s.Family == verify.FamilyBasic:
		return "header:Authorization"
	case s.At != "":
		return s.At
	case s.Header != "":
		at := "header:" + s.Header
		for _, more := range s.MoreHeaders {
			at += " | header:" + more
		}
		return at
	}
	return ""
}

func content(s *verify.Scheme) string {
	switch s.Family {
	case verify.FamilyHMAC, verify.FamilyDigest, verify.FamilySignature, verify.FamilyJWS:
		return cmp.Or(s.Content, "{body}")
	case verify.FamilyStandardWebhooks:
		return "{id}.{timestamp}.{body}"
	case verify.FamilyJWT:
		var claims []string
		for _, c := range s.JWT.Claims {
			claims = append(claims, c.Name+" = "+c.Equals)
		}
		return strings.Join(claims, ", ")
	}
	return ""
}

func signsURL(s *verify.Scheme) bool {
	parts := []string{"{url}", "{url_unescaped}", "{path}", "{path_query}", "{path_query_escaped}", "{sha256:url}", "{qsh}"}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(content(s), part) })
}

// whatSecret returns the setting that holds the secret or key, and its form.
func whatSecret(s *verify.Scheme) string {
	switch {
	case s.Family == verify.FamilyNone:
		return "none"
	case s.Family == verify.FamilyBasic:
		return "secrets: user:password"
	case s.Family == verify.FamilyToken:
		return "secrets: the token, as it is sent"
	case publicKey(s) && s.Keys != nil:
		return "nothing: the public key is fetched; key sets one instead"
	case publicKey(s):
		return "key: the provider's public key"
	}
	switch cmp.Or(s.SecretEncoding, defaultSecret(s)) {
	case verify.SecretBase64:
		return "secrets: the signing key, in base64"
	case verify.SecretHex:
		return "secrets: the signing key, in hexadecimal digits"
	case verify.SecretWhsec:
		return "secrets: the signing secret in base64, with or without whsec_"
	}
	return "secrets: the signing secret, as it is shown"
}

func defaultSecret(s *verify.Scheme) string {
	if s.Family == verify.FamilyStandardWebhooks {
		return verify.SecretWhsec
	}
	return verify.SecretRaw
}

// Parts of the regular expression for a host: any text, an optional or repeated group, and several
// texts in a row.
var (
	anyText  = regexp.MustCompile(`\[[^\]]*\](\{[^}]*\}|[*+])`)
	optional = regexp.MustCompile(`\([^)]*\)[?*+]`)
	anyTexts = regexp.MustCompile(`\*(-\*)+`)
)

// keysFrom returns the place where keys are fetched, for people.
func keysFrom(k *verify.KeySource) string {
	if k.URL != "" {
		return k.URL
	}
	host := optional.ReplaceAllString(anyText.ReplaceAllString(k.Host, "*"), "")
	return "https://" + strings.ReplaceAll(anyTexts.ReplaceAllString(host, "*"), `\.`, ".")
}

func factsOfHandshake(h *provider.Handshake) handshakeFacts {
	f := handshakeFacts{ID: h.ID, Method: cmp.Or(h.Method, "POST"), Arm: h.Delivers != ""}
	var about []string
	for _, c := range h.When {
		about = append(about, "where "+condition(c))
	}
	if h.Signed != "" {
		about = append(about, "signed "+strings.ReplaceAll(h.Signed, "_", " "))
	}
	for _, c := range h.Check {
		about = append(about, "only if "+condition(c))
	}
	if h.Delivers != "" {
		about = append(about, "takes the secret at "+h.Delivers+" while the source is armed")
	}
	if h.Token != "" {
		about = append(about, "the answer holds "+h.Token)
	}
	if h.Digest != nil {
		about = append(about, "signed by "+h.Digest.Algorithm)
	}
	if h.Confirm != "" {
		about = append(about, "then fetches "+h.Confirm)
	}
	f.About = strings.Join(append(about, fmt.Sprintf("answered %d", cmp.Or(h.Answer.Status, 200))), "; ")
	return f
}

func condition(c provider.Condition) string {
	switch {
	case c.Equals != "":
		return c.At + " = " + c.Equals
	case c.Matches != "":
		return c.At + " matches " + c.Matches
	case c.Absent:
		return c.At + " is not there"
	}
	return c.At + " is there"
}

// inSettings words a duration that may be unknown: "" for 0.
func inSettings(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return say.Setting(d)
}
