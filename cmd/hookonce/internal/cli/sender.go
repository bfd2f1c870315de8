package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Limits of the files that flags name, in bytes.
const (
	maxBodyFile = 256 << 20
	maxKeyFile  = 1 << 20
)

// senderFlags are the flags that describe a sender and its request.
type senderFlags struct {
	cmd              *cobra.Command
	provider, scheme string
	signature        string
	secrets, params  []string
	event            []string
	key              string
	headers          []string
	body             string
	url              string
}

func addSenderFlags(cmd *cobra.Command) *senderFlags {
	f := &senderFlags{cmd: cmd}
	flags := cmd.Flags()
	flags.StringVar(&f.provider, "provider", "", "`NAME` of the provider; hookonce providers lists all")
	addSchemeFlags(cmd, f)
	flags.StringArrayVar(&f.event, "event", nil, "the location of a field of the event, as `FIELD=LOCATION`: id, type, time, batch or document; may be repeated")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "a `HEADER`, as 'Name: value'; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("provider", cobra.FixedCompletions(completions(), cobra.ShellCompDirectiveNoFileComp))
	return f
}

// addSchemeFlags adds the flags that say how the provider signs.
func addSchemeFlags(cmd *cobra.Command, f *senderFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.scheme, "scheme", "", "`ID` of a scheme of the provider, if not its default")
	flags.StringArrayVar(&f.params, "param", nil, "a parameter of the scheme, as `NAME=VALUE`; may be repeated")
	flags.StringVar(&f.signature, "signature", "", "how a sender of provider hmac signs: `JSON` with the keys of the setting signature, and timestamp in it; for provider token, the keys of token")
}

// usage returns a usage error.
func (f *senderFlags) usage(format string, args ...any) error {
	return newUsageError(f.cmd, fmt.Errorf(format, args...))
}

// sender returns the sender that the flags describe.
func (f *senderFlags) sender() (*sample.Sender, error) {
	if f.provider == "" {
		return nil, f.usage("--provider is missing: the name of the sender")
	}
	params, err := f.pairs("--param", f.params)
	if err != nil {
		return nil, err
	}
	setup := sample.Setup{Provider: provider.Name(f.provider), Scheme: f.scheme, Params: params}
	if setup.Event, err = f.eventRules(); err != nil {
		return nil, err
	}
	if setup.Signature, err = f.ownScheme(); err != nil {
		return nil, err
	}
	if setup.Provider == provider.HMAC && setup.Signature == nil {
		return nil, f.usage(`--signature is missing: how the sender signs, as {"header":"X-Signature","content":"{body}"}`)
	}
	if setup.Provider == provider.Token && setup.Signature == nil {
		return nil, f.usage(`--signature is missing: where the secret stands, as {"at":"header:X-Token"}`)
	}
	s, err := sample.New(setup)
	if err != nil {
		if errors.Is(err, provider.ErrUnknown) {
			return nil, f.usage("--provider: %w", noProvider(f.provider, err))
		}
		return nil, f.usage("%w", asFlags(err))
	}
	return s, f.checkEvent(s)
}

// asFlags rewrites the faults of a scheme so that they name the flag that fixes them.
func asFlags(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []error
		for _, fault := range joined.Unwrap() {
			faults = append(faults, asFlags(fault))
		}
		return errors.Join(faults...)
	}
	var fault *verify.FieldError
	if !errors.As(err, &fault) {
		return err
	}
	if name, ok := strings.CutPrefix(fault.Field, "params."); ok {
		return fmt.Errorf("--param %s=...: %s", name, fault.Problem)
	}
	return err
}

// pairs reads flags of the form NAME=VALUE.
func (f *senderFlags) pairs(flag string, texts []string) (map[string]string, error) {
	pairs := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := pairs[name]; !ok || name == "" || twice {
			return nil, f.usage("%s: write each once, as NAME=VALUE", flag) // it may hold a secret
		}
		pairs[name] = value
	}
	return pairs, nil
}

// eventRules reads --event.
func (f *senderFlags) eventRules() (provider.EventRules, error) {
	var rules provider.EventRules
	pairs, err := f.pairs("--event", f.event)
	for name, value := range pairs {
		field := map[string]*string{
			"id": &rules.ID, "type": &rules.Type, "time": &rules.Time, "batch": &rules.Batch, "document": &rules.Document,
		}[name]
		if field == nil {
			return rules, f.usage("--event: %q is none of id, type, time, batch and document", name)
		}
		*field = value
	}
	return rules, err
}

// checkEvent checks --event together with the provider's own event rules.
func (f *senderFlags) checkEvent(s *sample.Sender) error {
	s, _ = s.WithHints()
	if len(f.event) == 0 || s.Rules.ID == "" {
		return nil
	}
	if _, err := provider.CompileRules(s.Rules); err != nil {
		return f.usage("--event: %w", err)
	}
	return nil
}

// readEvents returns the events that a receiver reads from a request, and why it cannot use others.
func readEvents(s *sample.Sender, req *verify.Request) (events []provider.Event, unusable []string) {
	extractor, err := provider.CompileRules(s.Rules)
	if err != nil {
		return nil, []string{err.Error()}
	}
	events, malformed := extractor.Extract(&locate.Input{Header: req.Header, Body: req.Body, RawQuery: req.RawQuery})
	for _, m := range malformed {
		unusable = append(unusable, m.Reason)
	}
	return events, unusable
}

// ownSignature is the JSON of --signature.
type ownSignature struct {
	Header         string     `json:"header,omitempty"`
	MoreHeaders    []string   `json:"more_headers,omitempty"`
	At             string     `json:"at,omitempty"`
	Algorithm      string     `json:"algorithm,omitempty"`
	Encoding       string     `json:"encoding,omitempty"`
	Prefix         string     `json:"prefix,omitempty"`
	PrefixOptional bool       `json:"prefix_optional,omitempty"`
	Content        string     `json:"content,omitempty"`
	Format         string     `json:"format,omitempty"`
	Separator      string     `json:"separator,omitempty"`
	Keys           []string   `json:"keys,omitempty"`
	SecretEncoding string     `json:"secret_encoding,omitempty"`
	Timestamp      *ownTiming `json:"timestamp,omitempty"`
}

type ownTiming struct {
	At        string `json:"at"`
	Format    string `json:"format,omitempty"`
	Tolerance string `json:"tolerance,omitempty"`
}

// ownToken is the JSON of --signature for provider token.
type ownToken struct {
	At     string `json:"at"`
	Prefix string `json:"prefix,omitempty"`
}

// signatureJSON returns the value of --signature for a scheme of the settings.
func signatureJSON(s *verify.Scheme) string {
	if s.Family == verify.FamilyToken {
		raw, _ := json.Marshal(ownToken{signatureAt(s), s.Prefix})
		return string(raw)
	}
	own := ownSignature{
		Header: s.Header, MoreHeaders: s.MoreHeaders, At: s.At, Algorithm: s.Algorithm, Encoding: s.Encoding,
		Prefix: s.Prefix, PrefixOptional: s.PrefixOptional, Content: s.Content, Format: s.Format, Separator: s.Separator,
		Keys: s.SignatureKeys, SecretEncoding: s.SecretEncoding,
	}
	if t := s.Timestamp; t != nil {
		own.Timestamp = &ownTiming{At: t.At, Format: t.Format}
		if t.Tolerance > 0 {
			own.Timestamp.Tolerance = t.Tolerance.String()
		}
	}
	raw, _ := json.Marshal(own) // texts always encode
	return string(raw)
}

// ownScheme reads --signature, which has the keys of the settings.
func (f *senderFlags) ownScheme() (*verify.Scheme, error) {
	if f.signature == "" {
		return nil, nil
	}
	if provider.Name(f.provider) == provider.Token {
		var own ownToken
		if err := f.decodeSignature(&own); err != nil {
			return nil, err
		}
		scheme, err := provider.TokenScheme(own.At, own.Prefix)
		if err != nil {
			return nil, f.usage("--signature: %w", err)
		}
		return &scheme, nil
	}
	var own ownSignature
	if err := f.decodeSignature(&own); err != nil {
		return nil, err
	}
	scheme := &verify.Scheme{
		Family: verify.FamilyOf(own.Algorithm), Header: own.Header, MoreHeaders: own.MoreHeaders, At: own.At,
		Algorithm: own.Algorithm, Encoding: own.Encoding, Prefix: own.Prefix, PrefixOptional: own.PrefixOptional,
		Content: own.Content, Format: own.Format, Separator: own.Separator,
		SignatureKeys: own.Keys, SecretEncoding: own.SecretEncoding,
	}
	if t := own.Timestamp; t != nil {
		scheme.Timestamp = &verify.Timestamp{At: t.At, Format: t.Format}
		var err error
		if t.Tolerance != "" {
			scheme.Timestamp.Tolerance, err = time.ParseDuration(t.Tolerance)
		}
		if err != nil {
			return nil, f.usage("--signature: tolerance: %w", err)
		}
	}
	return scheme, nil
}

// decodeSignature decodes --signature.
func (f *senderFlags) decodeSignature(to any) error {
	dec := json.NewDecoder(strings.NewReader(f.signature))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return f.usage("--signature: %w", err)
	}
	return nil
}

// header reads the headers.
func (f *senderFlags) header() (http.Header, error) {
	h := make(http.Header)
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, ":")
		value = textproto.TrimString(value)
		if !ok || !locate.ValidHeaderName(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, f.usage("-H: write it as 'Name: value'") // it may hold a credential
		}
		h.Add(name, value)
	}
	return h, nil
}

// readSecrets returns the keys of --secret, each the secret itself or file:PATH. A secret of zero bytes
// matches no request; if there is no other, the error is verify.ErrZeroSecret.
func (f *senderFlags) readSecrets(v *verify.Verifier) ([]verify.Key, error) {
	texts, err := f.secretTexts()
	if err != nil {
		return nil, err
	}
	var keys []verify.Key
	var zero error
	for _, text := range texts {
		key, err := v.ParseKey(text)
		switch {
		case errors.Is(err, verify.ErrZeroSecret):
			zero = err
		case err != nil:
			return nil, f.usage("--secret: %w", err)
		default:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 && zero != nil {
		return nil, zero
	}
	return keys, nil
}

// secretTexts returns the secrets of --secret.
func (f *senderFlags) secretTexts() ([]string, error) {
	texts := slices.Clone(f.secrets)
	for i, text := range texts {
		if path, ok := strings.CutPrefix(text, "file:"); ok {
			var err error
			if texts[i], err = readKeyFile(path); err != nil {
				return nil, f.usage("--secret: %w", err)
			}
		}
	}
	return texts, nil
}

// givenKey returns the key of --secret or --key to sign with. given is false if there is neither, and
// receivers need only a public key.
func (f *senderFlags) givenKey(s *sample.Sender) (key verify.Key, given bool, err error) {
	v := s.Verifier
	switch {
	case !v.NeedsKeys():
		if f.key != "" || len(f.secrets) > 0 {
			return key, false, f.usage("provider %s is unsigned: it has neither --secret nor --key", s.Spec.Name)
		}
		return key, false, nil
	case f.key != "" && !v.PublicKey():
		return key, false, f.usage("--key: scheme %s of provider %s signs with a shared secret: use --secret", s.Scheme.ID, s.Spec.Name)
	case f.key != "":
		key, err = f.readKey(v)
		return key, true, err
	case len(f.secrets) > 0:
		keys, err := f.readSecrets(v)
		if errors.Is(err, verify.ErrZeroSecret) {
			err = f.usage("--secret: %w", err)
		}
		if err != nil {
			return key, false, err
		}
		return keys[0], true, nil
	case !v.PublicKey():
		return key, false, f.usage("--secret is missing")
	}
	return key, false, nil
}

// readKey reads the key from the file that --key names.
func (f *senderFlags) readKey(v *verify.Verifier) (verify.Key, error) {
	text, err := readKeyFile(f.key)
	if err != nil {
		return verify.Key{}, f.usage("--key: %w", err)
	}
	key, err := v.ParseKey(text)
	if err != nil {
		return verify.Key{}, f.usage("--key: %w", err)
	}
	return key, nil
}

// readKeyFile returns the content of a file without the line breaks at its end.
func readKeyFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := readAll(file, maxKeyFile)
	return strings.TrimRight(string(data), "\r\n"), err
}

// readBody reads the body from a file, or from stdin for "-".
func (f *senderFlags) readBody(stdin io.Reader) ([]byte, error) {
	in := stdin
	if f.body != "-" {
		file, err := os.Open(f.body)
		if err != nil {
			return nil, f.usage("--body: %w", err)
		}
		defer file.Close()
		in = file
	}
	data, err := readAll(in, maxBodyFile)
	if err != nil {
		return nil, f.usage("--body: %w", err)
	}
	return data, nil
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// target reads the URL to send to. public is that of --url, or else the target without its query.
func (f *senderFlags) target(text string) (target *url.URL, public string, err error) {
	if target, err = f.checkURL("URL", text); err != nil {
		return nil, "", err
	}
	if f.url != "" {
		_, err = f.checkURL("--url", f.url)
		return target, f.url, err
	}
	bare := *target
	bare.RawQuery, bare.Fragment, bare.User = "", "", nil
	return target, bare.String(), nil
}

// checkURL parses an http or https URL. Its error does not quote the URL, which may hold a
// credential.
func (f *senderFlags) checkURL(flag, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, f.usage("%s: write it as https://host/path", flag)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, f.usage("%s: the port must be from 1 to 65535", flag)
		}
	}
	return u, nil
}
