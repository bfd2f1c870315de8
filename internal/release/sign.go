package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// keyVariable names the file of the private key. Its public half is in publicKey.
const (
	keyVariable = "HOOKONCE_RELEASE_KEY"
	publicKey   = "deploy/package/minisign.pub"
)

// signingKey returns the file of the private key, and notes the public one. A snapshot gets a key of its own, which is gone
// afterwards.
func (r *release) signingKey(ctx context.Context, temporary string) (string, error) {
	private, public := os.Getenv(keyVariable), publicKey
	if r.snapshot {
		private, public = filepath.Join(temporary, "minisign.key"), filepath.Join(temporary, "minisign.pub")
		if _, err := output(ctx, "", nil, "minisign", "-G", "-W", "-p", public, "-s", private); err != nil {
			return "", fmt.Errorf("%w\ninstall minisign", err)
		}
	}
	if private == "" {
		return "", errors.New(keyVariable + " must name the private key of minisign that signs the release")
	}
	text, err := os.ReadFile(public)
	if err != nil {
		return "", fmt.Errorf("the public key: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	r.key = strings.TrimSpace(lines[len(lines)-1])
	return private, nil
}

// sign writes the checksums of all files in a folder, and their signature.
func (r *release) sign(ctx context.Context, folder, key string) error {
	files, err := read(folder, "")
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
	}
	list := filepath.Join(folder, "SHA256SUMS")
	if err := os.WriteFile(list, []byte(sums.String()), 0o644); err != nil {
		return err
	}
	// The signed comment names the version, so that the files of an old release do not pass for a new one.
	if _, err := output(ctx, "", nil, "minisign", "-S", "-s", key, "-t", "hookonce "+r.version, "-m", list); err != nil {
		return err
	}
	_, err = output(ctx, "", nil, "minisign", "-V", "-q", "-P", r.key, "-m", list)
	return err
}
