package temporal

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"descartes/fleet"
)

// Server says where Temporal is. What is not said here is as Temporal's own tools have it: TEMPORAL_ADDRESS,
// TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_CLIENT_CERT_PATH and so on, or its configuration file.
type Server struct {
	Address   string
	Namespace string
	KeyFile   string       // 64 hexadecimal digits: with them everything in the history is encrypted; "" encrypts nothing
	Wait      func(string) // waits for a server that does not answer, and hears of it; nil: gives up
}

// connectFor is how long a server may take to answer.
const connectFor = 10 * time.Second

// Fleet is a connection to the server.
type Fleet struct {
	client    client.Client
	converter converter.DataConverter
	silent    time.Duration // after which a worker is given up

	inFlight atomic.Int64 // attempts of this run that the server has
	server   *fleet.Reach
}

// silentVar is the variable that says how long a worker may be silent, such as 2m, before another one makes its
// attempts.
const silentVar = "DESCARTES_FLEET_SILENT"

// Dial connects to the server.
func (s Server) Dial(ctx context.Context) (f *Fleet, err error) {
	f = &Fleet{silent: heartbeat, server: &fleet.Reach{Name: "the Temporal server", Away: away, Note: func(string) {}}}
	if text := os.Getenv(silentVar); text != "" {
		if f.silent, err = time.ParseDuration(text); err != nil || f.silent < 3*time.Second {
			return nil, fmt.Errorf("%s is no time of at least 3s: %q", silentVar, text)
		}
	}
	if f.converter, err = s.converter(); err != nil {
		return nil, err
	}
	opt, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, fmt.Errorf("read Temporal's settings: %w", err)
	}
	opt.HostPort, opt.Namespace = cmp.Or(s.Address, opt.HostPort), cmp.Or(s.Namespace, opt.Namespace)
	opt.DataConverter = f.converter
	if s.KeyFile != "" {
		opt.FailureConverter = failures(f.converter)
	}
	opt.ConnectionOptions.DialOptions = append(opt.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(askOften))
	opt.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	connect := func() (err error) {
		ctx, done := context.WithTimeout(ctx, connectFor)
		defer done()
		if f.client, err = client.DialContext(ctx, opt); err != nil {
			err = fmt.Errorf("no Temporal server answers at %s (descartes-fleet dev starts one to try it): %w",
				cmp.Or(opt.HostPort, client.DefaultHostPort), err)
		}
		return err
	}
	if s.Wait == nil {
		return f, connect()
	}
	f.server.Note = s.Wait
	return f, f.server.Do(ctx, 0, connect)
}

// askEvery is how often a program that waits for work asks again: the server knows by that alone that it is there. (It
// complains below 20 s.)
const askEvery = 25 * time.Second

// askOften ends a question for work in time; the SDK has each wait for a minute.
func askOften(ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker,
	opts ...grpc.CallOption) error {
	if strings.HasSuffix(method, "/PollActivityTaskQueue") {
		asked, done := context.WithTimeout(ctx, askEvery)
		defer done()
		ctx = asked
	}
	return call(ctx, method, req, reply, c, opts...)
}

// Close ends the connection.
func (f *Fleet) Close() { f.client.Close() }

func (s Server) converter() (converter.DataConverter, error) {
	if s.KeyFile == "" {
		return converter.GetDefaultDataConverter(), nil
	}
	text, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s holds no key of 64 hexadecimal digits; make one with: openssl rand -hex 32",
			s.KeyFile)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), &sealed{sealer}), nil
}

// failures encrypts the text of failures as well.
func failures(c converter.DataConverter) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c,
		EncodeCommonAttributes: true})
}

// sealed encrypts payloads with AES-GCM.
type sealed struct{ cipher.AEAD }

// encoding marks payloads that are encrypted.
const encoding = "binary/descartes-aes-gcm"

// Encode encrypts.
func (s *sealed) Encode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)},
			Data: s.Seal(nil, nil, plain, nil)}
	}
	return out, nil
}

// Decode decrypts. What nobody encrypted is refused: somebody without the key wrote it.
func (s *sealed) Decode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		if string(p.Metadata[converter.MetadataEncoding]) != encoding {
			return nil, errors.New("a payload is not encrypted: is --key-file missing somewhere?")
		}
		plain, err := s.Open(nil, nil, p.Data, nil)
		if err != nil {
			return nil, errors.New("a payload was encrypted with another key")
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
