package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"os"
	"path/filepath"

	"github.com/hookonce/hookonce"
)

const from = "shop@example.com"

// receipt returns the message for the destination "mail". The Sender gets its type, its header and
// its body. The outbox makes the id.
func receipt(order, email string) *hookonce.Message {
	return &hookonce.Message{
		Destination: "mail",
		Type:        "receipt",
		Header:      http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Mail-To": {email}},
		Body:        []byte("Thank you for your order " + order + ".\r\n"),
	}
}

// newMailer returns a Sender that sends through the server at SMTP_ADDRESS, or writes files into
// MAIL_FOLDER.
func newMailer() hookonce.Sender {
	if address := os.Getenv("SMTP_ADDRESS"); address != "" {
		return smtpMailer(address)
	}
	if folder := os.Getenv("MAIL_FOLDER"); folder != "" {
		return fileMailer(folder)
	}
	return fileMailer("mail")
}

// text returns the mail. Its Message-ID is the message's id, the same on every attempt, so a mail
// that is sent again after a lost answer can be recognised.
func text(m *hookonce.Outgoing) (to string, content []byte, err error) {
	address, err := mail.ParseAddress(m.Header.Get("Mail-To"))
	if err != nil {
		return "", nil, hookonce.Permanent(fmt.Errorf("reading the receipt's address: %w", err))
	}
	head := fmt.Sprintf("From: %s\r\nTo: %s\r\nSubject: Your receipt\r\nMessage-ID: <%s@example.com>\r\n"+
		"Content-Type: %s\r\n\r\n", from, address, m.ID, m.Header.Get("Content-Type"))
	return address.Address, append([]byte(head), m.Body...), nil
}

// fileMailer is a folder. The message's id names the file, so sending again rewrites the same file.
type fileMailer string

func (folder fileMailer) Send(_ context.Context, m *hookonce.Outgoing) error {
	_, content, err := text(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return err
	}
	name := filepath.Join(string(folder), m.ID+".eml")
	if err := os.WriteFile(name+".part", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".part", name) // the file is complete or missing
}

// smtpMailer is the address of a mail server, for example the local one.
type smtpMailer string

func (address smtpMailer) Send(ctx context.Context, m *hookonce.Outgoing) error {
	to, content, err := text(m)
	if err != nil {
		return err
	}
	err = address.deliver(ctx, to, content)
	var refused *textproto.Error
	if errors.As(err, &refused) && refused.Code >= 500 { // 4xx may succeed later (RFC 5321, section 4.2.1)
		return hookonce.Permanent(err)
	}
	return err
}

func (address smtpMailer) deliver(ctx context.Context, to string, content []byte) error {
	host, _, err := net.SplitHostPort(string(address))
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", string(address))
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // on an error the next command fails
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if err := client.Mail(from); err != nil {
		return err
	}
	if err := client.Rcpt(to); err != nil {
		return err
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil { // the server's answer to the whole mail
		return err
	}
	_ = client.Quit() // the server already has the mail
	return nil
}
