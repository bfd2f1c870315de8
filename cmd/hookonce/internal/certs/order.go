package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"
)

const challengeType = "tls-alpn-01" // RFC 8737

// order gets a certificate for a host, with a new key.
func (a *Authority) order(ctx context.Context, h *host) (*tls.Certificate, error) {
	if err := a.register(ctx); err != nil {
		return nil, fmt.Errorf("opening the account at %s: %w", a.Directory, err)
	}
	order, err := a.client.AuthorizeOrder(ctx, acme.DomainIDs(h.name))
	if err != nil {
		return nil, fmt.Errorf("ordering a certificate: %w", err)
	}
	for _, url := range order.AuthzURLs {
		if err := a.prove(ctx, h, url); err != nil {
			return nil, err
		}
	}
	if _, err = a.client.WaitOrder(ctx, order.URI); err != nil {
		return nil, fmt.Errorf("waiting for the order: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{h.name}}, key)
	if err != nil {
		return nil, err
	}
	chain, err := a.finalize(ctx, order, request)
	if err != nil {
		return nil, fmt.Errorf("receiving the certificate: %w", err)
	}
	leaf, err := leafOf(chain, h.name)
	if err != nil {
		return nil, fmt.Errorf("the issued certificate: %w", err)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}, nil
}

// finalize sends the request for the certificate of an order, and returns the chain.
func (a *Authority) finalize(ctx context.Context, order *acme.Order, request []byte) ([][]byte, error) {
	chain, _, err := a.client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	if err == nil {
		return chain, nil
	}
	// CreateOrderCert needs the order's URL in the answer. RFC 8555 does not demand it, and Pebble leaves
	// it out.
	issued, waitErr := a.client.WaitOrder(ctx, order.URI)
	if waitErr != nil || issued.Status != acme.StatusValid {
		return nil, err
	}
	return a.client.FetchCert(ctx, issued.CertURL, true)
}

// register opens the account of the key, or finds it. It agrees to the terms of the authority.
func (a *Authority) register(ctx context.Context) error {
	a.registering.Lock()
	defer a.registering.Unlock()
	if a.registered {
		return nil
	}
	account := new(acme.Account)
	if a.Email != "" {
		account.Contact = []string{"mailto:" + a.Email}
	}
	_, err := a.client.Register(ctx, account, acme.AcceptTOS)
	if err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return err
	}
	a.registered = true
	return nil
}

// prove proves that the host of an authorization leads to this listener.
func (a *Authority) prove(ctx context.Context, h *host, url string) error {
	authorization, err := a.client.GetAuthorization(ctx, url)
	if err != nil {
		return fmt.Errorf("reading the challenges: %w", err)
	}
	if authorization.Status == acme.StatusValid {
		return nil
	}
	at := slices.IndexFunc(authorization.Challenges, func(c *acme.Challenge) bool { return c.Type == challengeType })
	if at < 0 {
		return errNoChallenge
	}
	challenge := authorization.Challenges[at]
	answer, err := a.client.TLSALPN01ChallengeCert(challenge.Token, h.name)
	if err != nil {
		return err
	}
	h.challenge.Store(&answer)
	defer h.challenge.Store(nil)
	if _, err := a.client.Accept(ctx, challenge); err != nil {
		return fmt.Errorf("accepting the challenge: %w", err)
	}
	if _, err := a.client.WaitAuthorization(ctx, authorization.URI); err != nil {
		return fmt.Errorf("the authority could not validate the host: %w", err)
	}
	return nil
}

var errNoChallenge = errors.New("the authority does not offer the challenge " + challengeType + " for this host")

// problemOf returns the problem that an authority answered, or nil.
func problemOf(err error) *acme.Error {
	if failed, ok := errors.AsType[*acme.AuthorizationError](err); ok && len(failed.Errors) > 0 {
		err = failed.Errors[0]
	}
	if failed, ok := errors.AsType[*acme.OrderError](err); ok && failed.Problem != nil {
		err = failed.Problem
	}
	problem, _ := errors.AsType[*acme.Error](err)
	return problem
}

// remedyFor returns the remedy for the failure of a try.
func remedyFor(err error, name string) string {
	problem := problemOf(err)
	if problem == nil {
		certificate, trust := errors.AsType[*tls.CertificateVerificationError](err)
		_, network := errors.AsType[net.Error](err)
		switch {
		case trust && certificate != nil:
			return "SSL_CERT_FILE names a file with the root certificate of a private authority"
		case errors.Is(err, errNoChallenge):
			return "use another tls.directory, or files with tls.cert and tls.key"
		case network || errors.Is(err, context.DeadlineExceeded):
			return "check tls.directory, and that this machine reaches it"
		}
		return "check tls.directory; it must be the directory of an authority that speaks ACME"
	}
	switch kind := problem.ProblemType[strings.LastIndexByte(problem.ProblemType, ':')+1:]; kind {
	case "connection", "tls", "unauthorized":
		return "port 443 of " + name + " must lead to the setting listen, with no proxy between that ends TLS"
	case "dns":
		return "point the name " + name + " at this machine (A and AAAA)"
	case "caa":
		return "allow the authority in the CAA records of " + name
	case "rateLimited":
		return "keep tls.folder between restarts; try out with tls.directory: https://acme-staging-v02.api.letsencrypt.org/directory"
	case "rejectedIdentifier", "unsupportedIdentifier", "malformed":
		return "the authority must be able to issue for " + name + ": use a public name, or a tls.directory of your own"
	case "externalAccountRequired":
		return "use an authority without external accounts, or files with tls.cert and tls.key"
	case "invalidContact", "unsupportedContact":
		return "correct tls.email"
	}
	return "look at the error of the authority"
}
