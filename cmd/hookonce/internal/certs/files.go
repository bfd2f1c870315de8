package certs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/internal/settingfile"
)

const (
	// lookPause is the time between two looks at the files. Reading them is cheap, and finds renamed
	// files, exchanged symbolic links and changes on network disks, which notifications miss.
	lookPause = 5 * time.Second
	// maxFile bounds the size of a file, in bytes.
	maxFile = 1 << 20
)

// Files keeps the certificate of two files, and takes changed ones.
type Files struct {
	cert, key string
	watch     Watch
	held      atomic.Pointer[Pair]
	trouble   atomic.Pointer[string] // a lasting fault of the files; nil if there is none
	wake      chan struct{}

	fault    string // of the last look; of Keep alone
	reported bool   // whether fault is in the log
}

// Pair is a certificate with its key.
type Pair struct {
	*tls.Certificate
	// Warnings say which of the files every user of the machine can read or change, and how to forbid it.
	Warnings []string

	sum [sha256.Size]byte // of both files
}

// OpenFiles reads a certificate and its key from two PEM files.
func OpenFiles(cert, key string, watch Watch) (*Files, error) {
	f := &Files{cert: cert, key: key, watch: watch, wake: make(chan struct{}, 1)}
	pair, err := ReadPair(cert, key)
	if err != nil {
		return nil, err
	}
	f.take(pair)
	return f, nil
}

// Config implements Keeper.
func (f *Files) Config() *tls.Config {
	return serverConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.held.Load().Certificate, nil })
}

// Keep implements Keeper.
func (f *Files) Keep(ctx context.Context) {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		f.look()
	}
}

// Wake implements Keeper.
func (f *Files) Wake() { wake(f.wake) }

// Troubles implements Keeper.
func (f *Files) Troubles() []string {
	var lines []string
	if text := expiry(f.held.Load().Leaf, time.Now()); text != "" {
		lines = append(lines, "tls.cert: "+text)
	}
	if text := f.trouble.Load(); text != nil {
		lines = append(lines, *text+"; the certificate from before stays in use")
	}
	return lines
}

// look reads the files and takes a changed pair. It reports a fault once, when two looks in a row have
// found it: the two files may be replaced one after the other.
func (f *Files) look() {
	pair, err := f.changed()
	switch {
	case err == nil:
		f.fault, f.reported = "", false
		f.trouble.Store(nil)
		if pair != nil {
			f.take(pair)
		}
	case f.fault != err.Error():
		f.fault, f.reported = err.Error(), false
	case !f.reported:
		f.reported = true
		text := oneLine(err)
		f.trouble.Store(&text)
		f.watch.Failed("")
		var fault *Error
		errors.As(err, &fault)
		f.watch.Log.Error("the changed certificate cannot be used; the one from before stays in use", "error", text, "remedy", fault.Remedy)
	}
}

// changed returns the pair of the files, or nil if it is the one in use.
func (f *Files) changed() (*Pair, error) {
	raw, err := readFiles(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	if raw.sum == f.held.Load().sum {
		return nil, nil
	}
	return raw.parse()
}

func (f *Files) take(pair *Pair) {
	f.held.Store(pair)
	f.watch.Holds("", pair.Leaf.NotAfter)
	f.watch.Log.Info("certificate in use", "cert", f.cert, "names", pair.Names(), "expires", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	if text := expiry(pair.Leaf, time.Now()); text != "" {
		f.watch.Log.Warn(text, "cert", f.cert)
	}
	for _, text := range pair.Warnings {
		f.watch.Log.Warn(text, "cert", f.cert, "key", f.key)
	}
}

// Host returns the host for addresses of the listener: local if the certificate in use covers it,
// otherwise a name or an address of that certificate. It returns local if there is none.
func (f *Files) Host(local string) string {
	leaf := f.held.Load().Leaf
	if leaf.VerifyHostname(local) == nil {
		return local
	}
	wildcard := ""
	for _, name := range leaf.DNSNames {
		rest, is := strings.CutPrefix(name, "*.")
		if !is {
			return name
		}
		wildcard = cmp.Or(wildcard, "HOST."+rest) // to be filled in by the reader
	}
	if len(leaf.IPAddresses) > 0 {
		return leaf.IPAddresses[0].String()
	}
	return cmp.Or(wildcard, local)
}

// Names returns the names and addresses that the certificate is for.
func (p *Pair) Names() string {
	names := p.Leaf.DNSNames
	for _, ip := range p.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return strings.Join(names, ", ")
}

// ReadPair reads a certificate and its key. Its error is an *Error.
func ReadPair(cert, key string) (*Pair, error) {
	raw, err := readFiles(cert, key)
	if err != nil {
		return nil, err
	}
	return raw.parse()
}

// rawPair is the content of two files.
type rawPair struct {
	certPath, keyPath string
	cert, key         []byte
	warnings          []string
	sum               [sha256.Size]byte
}

func readFiles(cert, key string) (*rawPair, error) {
	raw := &rawPair{certPath: cert, keyPath: key}
	var err error
	if raw.cert, err = raw.read("cert", cert, false); err != nil {
		return nil, err
	}
	if raw.key, err = raw.read("key", key, true); err != nil {
		return nil, err
	}
	certSum, keySum := sha256.Sum256(raw.cert), sha256.Sum256(raw.key)
	raw.sum = sha256.Sum256(append(certSum[:], keySum[:]...))
	return raw, nil
}

func (r *rawPair) read(setting, path string, secret bool) ([]byte, error) {
	file, err := settingfile.Read(path, maxFile)
	if err != nil {
		return nil, &Error{setting, path, fmt.Errorf("the file cannot be read: %w", err), "correct the path, or let the user of the gateway read the file"}
	}
	if text := file.Warning("the file of tls."+setting, secret); text != "" {
		r.warnings = append(r.warnings, text)
	}
	return file.Data, nil
}

func (r *rawPair) parse() (*Pair, error) {
	if err := checkCertificate(r.cert); err != nil {
		return nil, &Error{"cert", r.certPath, err, "the file must hold the certificate of the listener in PEM, and then its intermediates"}
	}
	if encrypted(r.key) {
		return nil, &Error{"key", r.keyPath, errors.New("the key is encrypted"), "store it without a passphrase: openssl pkey -in FILE -out FILE.plain"}
	}
	certificate, err := tls.X509KeyPair(r.cert, r.key)
	if err != nil {
		// The texts of crypto/tls quote nothing of the key.
		return nil, &Error{"key", r.keyPath, err, "the file must hold the private key of the certificate in tls.cert, in PEM"}
	}
	return &Pair{&certificate, r.warnings, r.sum}, nil
}

// checkCertificate checks the first certificate in data, which is the listener's own.
func checkCertificate(data []byte) error {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return errors.New("there is no certificate in the file")
		}
		if block.Type == "CERTIFICATE" {
			_, err := x509.ParseCertificate(block.Bytes)
			return err
		}
	}
}

func encrypted(key []byte) bool {
	block, _ := pem.Decode(key)
	return block != nil && (block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"))
}
