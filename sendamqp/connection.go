package sendamqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	errBlocked    = errors.New("RabbitMQ blocks publishers until it has resources again")
	errNack       = errors.New("the broker answered that it did not take the message (basic.nack); a queue may be full")
	errTooLarge   = errors.New("the headers do not fit into one frame")
	errUnroutable = errors.New("the broker returned the message, as no queue takes it")
)

// connection is an open connection with its idle channels. A channel publishes one message at a time: so a return or
// an error of the channel certainly concerns that message, and no other.
type connection struct {
	*amqp.Connection

	mu      sync.Mutex
	idle    []*channel
	blocked string // why the broker blocks this connection, or ""
}

// channel is a channel in confirm mode.
type channel struct {
	*amqp.Channel
	returned chan amqp.Return // has room for the return of one message
	closed   chan *amqp.Error // has room for the reason
}

func newConnection(conn *amqp.Connection) *connection {
	c := &connection{Connection: conn}
	blocking := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	go func() {
		for b := range blocking {
			c.mu.Lock()
			c.blocked = ""
			if b.Active {
				c.blocked = b.Reason
			}
			c.mu.Unlock()
		}
	}()
	return c
}

// checkBlocked returns an error if the broker blocks the connection.
func (c *connection) checkBlocked() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errBlocked, c.blocked)
}

// publish returns nil once the broker has confirmed msg, and a queue took it.
func (c *connection) publish(ctx context.Context, to target, msg amqp.Publishing) error {
	if err := c.checkBlocked(); err != nil {
		return err
	}
	if !c.fits(to, &msg) {
		return errTooLarge
	}
	ch, err := c.channel(ctx)
	if err != nil {
		return err
	}
	err = ch.publish(ctx, to, msg)
	switch {
	case ch.IsClosed():
	case ctx.Err() != nil:
		// The confirmation may still come. Then the channel must not take it for that of another message.
		go ch.Close()
	default:
		c.keep(ch)
	}
	if blocked := c.checkBlocked(); err != nil && blocked != nil {
		err = fmt.Errorf("%w: %w", blocked, err)
	}
	return err
}

// fits reports whether the headers of msg fit into one frame, as they must. A larger one would close the connection.
func (c *connection) fits(to target, msg *amqp.Publishing) bool {
	const others, each = 2048, 16 // bytes: the fixed part and properties; the lengths and type of a header
	size := others + len(to.exchange) + len(to.key)
	for name, value := range msg.Headers {
		text, _ := value.(string)
		size += each + len(name) + len(text)
	}
	return c.Config.FrameSize <= 0 || size <= c.Config.FrameSize
}

// channel returns an idle channel, or a new one.
func (c *connection) channel(ctx context.Context) (*channel, error) {
	if ch := c.takeIdle(); ch != nil {
		return ch, nil
	}
	type result struct {
		ch  *channel
		err error
	}
	opened := make(chan result)
	// The library has no context for this, and a frozen server does not answer.
	go func() {
		ch, err := c.open()
		select {
		case opened <- result{ch, err}:
		case <-ctx.Done():
			if err == nil {
				c.keep(ch)
			}
		}
	}()
	select {
	case r := <-opened:
		return r.ch, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no channel in time: %w", ctx.Err())
	}
}

func (c *connection) open() (*channel, error) {
	raw, err := c.Channel()
	if err != nil {
		return nil, err
	}
	ch := &channel{
		Channel:  raw,
		returned: raw.NotifyReturn(make(chan amqp.Return, 1)),
		closed:   raw.NotifyClose(make(chan *amqp.Error, 1)),
	}
	if err := raw.Confirm(false); err != nil {
		go raw.Close()
		return nil, err
	}
	return ch, nil
}

// keep makes ch idle.
func (c *connection) keep(ch *channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, ch)
}

// takeIdle returns an open channel that is idle, or nil.
func (c *connection) takeIdle() *channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		ch := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if !ch.IsClosed() {
			return ch
		}
	}
	return nil
}

func (ch *channel) publish(ctx context.Context, to target, msg amqp.Publishing) error {
	const mandatory, immediate = true, false
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(ctx, to.exchange, to.key, mandatory, immediate, msg)
	if err != nil {
		return ch.because(err)
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err != nil {
		return fmt.Errorf("no confirmation in time: %w", err)
	}
	if !confirmed {
		return ch.because(errNack) // or the channel was closed
	}
	// The broker returns a message before it confirms it.
	select {
	case r, open := <-ch.returned:
		if open {
			return fmt.Errorf("%w: %d %s", errUnroutable, r.ReplyCode, r.ReplyText)
		}
	default:
	}
	return nil
}

// because returns the reason why the channel was closed; err if it was not, or if there is none.
func (ch *channel) because(err error) error {
	select {
	case reason := <-ch.closed:
		if reason != nil {
			return reason
		}
	default:
	}
	return err
}
