package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/acme/autocert"
)

// store is the folder of one authority: its account's key, and a key and a certificate for each host.
// Every file is readable for this user only.
type store struct {
	path  string
	files autocert.DirCache
}

const (
	accountFile   = "acme_account+key" // autocert's name
	failureSuffix = "+failure"
)

// storeAt returns the store of an authority below folder. Each authority has its own, so that a
// certificate for trials is not mistaken for a trusted one.
func storeAt(folder, directory string) *store {
	_, name, _ := strings.Cut(directory, "://")
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.", r) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	path := filepath.Join(folder, strings.Trim(name, "-."))
	return &store{path, autocert.DirCache(path)}
}

func openStore(folder, directory string) (*store, error) {
	s := storeAt(folder, directory)
	if err := os.Mkdir(s.path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, s.fault(cannotWrite, err)
	}
	return s, nil
}

// fault returns an Error about the folder. what names the action that fails.
func (s *store) fault(what string, err error) *Error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &Error{"folder", s.path, fmt.Errorf("%s: %w", what, err), "give the folder to the user of the gateway, or name another one"}
}

const cannotRead, cannotWrite = "it cannot be read", "it cannot be written"

// accountKey returns the key of the account, and makes it if there is none.
func (s *store) accountKey() (crypto.Signer, error) {
	data, err := s.files.Get(context.Background(), accountFile)
	if err == nil {
		block, _ := pem.Decode(data)
		if block != nil {
			if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return key, nil
			}
		}
		return nil, &Error{"folder", filepath.Join(s.path, accountFile), errors.New("it is not the key of an account"), "move the file away; the gateway makes a new one"}
	}
	if !errors.Is(err, autocert.ErrCacheMiss) {
		return nil, s.fault(cannotRead, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := s.files.Put(context.Background(), accountFile, text); err != nil {
		return nil, s.fault(cannotWrite, err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// certificate returns the stored certificate of a host, expired or not.
func (s *store) certificate(name string) (*tls.Certificate, error) {
	data, err := s.files.Get(context.Background(), name)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, err
	}
	_, err = leafOf(certificate.Certificate, name)
	return &certificate, err
}

func (s *store) putCertificate(name string, certificate *tls.Certificate) *Error {
	key, ok := certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return s.fault(cannotWrite, fmt.Errorf("a key of type %T", certificate.PrivateKey))
	}
	text, err := encodeKey(key)
	if err != nil {
		return s.fault(cannotWrite, err)
	}
	out := bytes.NewBuffer(text)
	for _, der := range certificate.Certificate {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	if err := s.files.Put(context.Background(), name, out.Bytes()); err != nil {
		return s.fault(cannotWrite, err)
	}
	return nil
}

// noteFailure keeps the last failure of a host for Stored, which another process calls.
func (s *store) noteFailure(name, text, remedy string) {
	note := time.Now().UTC().Format(time.RFC3339) + "\n" + text + "\n" + remedy + "\n"
	_ = s.files.Put(context.Background(), name+failureSuffix, []byte(note)) // the log has it, too
}

func (s *store) forgetFailure(name string) {
	_ = s.files.Delete(context.Background(), name+failureSuffix)
}

// Status is the state of a host in the folder of an authority.
type Status struct {
	Leaf *x509.Certificate // nil if there is none
	// At, Failure and Remedy tell of the last try if it failed.
	At, Failure, Remedy string
}

// Stored reads the state of a host, and changes nothing. Its error is an *Error.
func Stored(folder, directory, name string) (*Status, error) {
	s, status := storeAt(folder, directory), new(Status)
	certificate, err := s.certificate(name)
	switch {
	case err == nil:
		status.Leaf = certificate.Leaf
	case errors.Is(err, os.ErrPermission):
		return nil, &Error{"folder", s.path, os.ErrPermission, "run this as the user of the gateway"}
	}
	if note, err := s.files.Get(context.Background(), name+failureSuffix); err == nil {
		lines := strings.Split(strings.TrimSuffix(string(note), "\n"), "\n")
		if len(lines) == 3 {
			status.At, status.Failure, status.Remedy = lines[0], lines[1], lines[2]
		}
	}
	return status, nil
}
