package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user of the image, and the owner of its folder /data. Others use the same number.
const imageUser = 65532

// ociImage is an image in the layout of OCI, for the systems that were added.
type ociImage struct {
	blobs     []entry
	manifests []descriptor
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

const ociType = "application/vnd.oci.image."

// blob adds a file, which is named by its hash.
func (i *ociImage) blob(mediaType string, data []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	i.blobs = append(i.blobs, entry{name: "blobs/sha256/" + sum, mode: 0o644, data: data})
	return descriptor{MediaType: ociType + mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

// object adds an object as JSON.
func (i *ociImage) object(mediaType string, object any) (descriptor, error) {
	data, err := json.Marshal(object)
	return i.blob(mediaType, data), err
}

// add adds the image of one system: the program, certificates of authorities, a user, and a folder of that user.
func (i *ociImage) add(t target, program, notices []byte, r *release) error {
	layer, err := tarred(withFolders([]entry{
		{name: "hookonce", mode: 0o755, data: program},
		{name: "THIRD-PARTY-NOTICES", mode: 0o644, data: notices},
		{name: "data", mode: fs.ModeDir | 0o700, owner: imageUser},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "hookonce:x:%d:%d::/data:/\n", imageUser, imageUser)},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities()},
	}), "", r.date)
	if err != nil {
		return err
	}
	packed, err := gzipped(layer, gzip.DefaultCompression)
	if err != nil {
		return err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    "hookonce",
		"org.opencontainers.image.source":   homepage,
		"org.opencontainers.image.version":  r.version[1:],
		"org.opencontainers.image.revision": r.revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	config, err := i.object("config.v1+json", map[string]any{
		"created": r.date, "architecture": t.arch, "os": t.os,
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%d", imageUser, imageUser), "WorkingDir": "/data", "Env": []string{"PATH=/"}, "Labels": labels,
			"Entrypoint": []string{"/hookonce"}, "Cmd": []string{"serve", "--config", "/etc/hookonce/hookonce.yaml"},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}, "8081/tcp": struct{}{}},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		"history": []any{map[string]any{"created": r.date, "created_by": "hookonce " + r.version}},
	})
	if err != nil {
		return err
	}
	manifest, err := i.object("manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": ociType + "manifest.v1+json", "config": config,
		"layers": []any{i.blob("layer.v1.tar+gzip", packed)}, "annotations": labels,
	})
	manifest.Platform = &platform{t.arch, t.os}
	i.manifests = append(i.manifests, manifest)
	return err
}

// writeImage writes the image of all systems as one file, a tar of the layout. skopeo copies it to a registry.
func (b *build) writeImage() error {
	i := &b.image
	if len(i.manifests) == 0 {
		return nil
	}
	list := map[string]any{"schemaVersion": 2, "mediaType": ociType + "index.v1+json", "manifests": i.manifests}
	index, err := i.object("index.v1+json", list)
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": b.version[1:]}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	files := append(i.blobs,
		entry{name: "index.json", mode: 0o644, data: top},
		entry{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	data, err := tarred(withFolders(files), "", b.date)
	return errors.Join(err, b.write(fmt.Sprintf("hookonce_%s_oci.tar", b.version[1:]), data))
}

// authorities returns the certificates of Mozilla's authorities, as their module has them: not those of this machine. It
// leaves out those that are trusted only under a condition, which a file cannot express.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer does not fail
		}
	}
	return out.Bytes()
}
