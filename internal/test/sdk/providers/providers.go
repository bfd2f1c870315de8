// Package providers holds the checks by SDKs in Go, one file for each provider. The files in
// ../npm/providers have the same form for SDKs of npm.
package providers

// Key is the secret of a source, or its pair of keys. The unused fields are "".
type Key struct {
	Secret  string `json:"secret,omitempty"`
	Private string `json:"private,omitempty"`
	Public  string `json:"public,omitempty"`
	// Certificate is a self-signed certificate of the pair, as PEM.
	Certificate string `json:"certificate,omitempty"`
}

// Request is a request to a receiver.
type Request struct {
	Method string            `json:"method"`
	URL    string            `json:"url"` // the public URL, without the query
	Query  string            `json:"query"`
	Header map[string]string `json:"headers"` // by lower-case names
	Body   string            `json:"body"`
	Now    int64             `json:"now"` // the time of receipt and of signing, in Unix milliseconds
	ID     string            `json:"id"`  // for a signer that needs an id and finds none in the request
}

// Saved is a request that a package ships. Method and URL may be empty.
type Saved struct {
	Name    string  `json:"name"`
	Request Request `json:"request"`
	Key     *Key    `json:"key"` // of a vector: the key that signed it
}

// Subject is one scheme of a provider and the SDK that judges it.
type Subject struct {
	Provider string `json:"provider"`
	Scheme   string `json:"scheme"`  // "" is the default
	SDK      string `json:"sdk"`     // the package of npm, or the path of the Go module
	Variant  string `json:"variant"` // tells apart subjects that differ in nothing else above
	// Documented means that SDK is a library of others, which the provider's documentation uses.
	Documented bool `json:"documented"`

	Params map[string]string `json:"params"` // of the source
	Key    *Key              `json:"key"`    // nil: a new one
	URL    string            `json:"url"`    // "": https://hooks.example.com/webhooks/PROVIDER
	Query  string            `json:"query"`
	Type   string            `json:"type"`   // of the event; "" is "test"
	Header map[string]string `json:"header"` // of every request, beside those that send writes
	Body   string            `json:"body"`   // "": the body that send makes
	// Signed names headers that the signature covers, besides those that signing adds.
	Signed []string `json:"signed"`
	// Covered lists texts of the body that get one changed byte each. Without it, the first, the
	// middle and the last letter or digit of the body change. Set it if the signature covers only a
	// part of the body.
	Covered []string `json:"covered"`
	// ASCII says why no body with other characters is tried; "" tries one if the body is a JSON
	// object.
	ASCII string `json:"ascii"`
	// Unchecked maps a change (body, header, time, secret or age) to the reason why the SDK accepts
	// it, several to the reason why it refuses two signatures with one right, "value NAME in PART" to the reason why the
	// two judge that odd value of a signed part differently, and a fault of
	// TestPlantedFaults to the reason why no check can notice it. A reason that is not needed fails
	// the test.
	Unchecked map[string]string `json:"unchecked"`
	// Age is how old a request is that both sides must refuse, such as "3h"; "" is 20 minutes.
	Age string `json:"age"`
	// Event holds rules of the source for a provider without an event id.
	Event map[string]string `json:"event"`

	// Verify returns nil if the SDK accepts the request.
	Verify func(*Request, *Key) error `json:"-"`
	// Read reads the event into the SDK's type for it; nil if the SDK has none.
	Read func(*Request, *Key) error `json:"-"`
	// Sign signs the request as the SDK does; nil if the SDK cannot.
	Sign func(*Request, *Key) error `json:"-"`
	// Vectors returns signed requests that packages ship. The receiver's clock shows their Now.
	Vectors func() ([]Saved, error) `json:"-"`
	// Recorded returns recorded payloads, which are signed again.
	Recorded func() ([]Saved, error) `json:"-"`
}

// Name returns a name that is unique among subjects.
func (s *Subject) Name() string {
	name := s.Provider + "/" + s.SDK
	if s.Scheme != "" {
		name += "/" + s.Scheme
	}
	if s.Variant != "" {
		name += "/" + s.Variant
	}
	return name
}

var all []*Subject

// add registers subjects; each file calls it in init.
func add(subjects ...*Subject) { all = append(all, subjects...) }

// All returns the subjects of this package.
func All() []*Subject { return all }
