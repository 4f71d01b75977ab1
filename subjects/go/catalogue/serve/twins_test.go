package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"wallfinder.dev/subjects/catalogue/products"
	"wallfinder.dev/subjects/catalogue/routes"
	"wallfinder.dev/subjects/listen"
)

const seed = 1

// pool is shared by the tests, which only read it.
var pool = sync.OnceValue(func() *products.Pool { return products.NewPool(seed, 500) })

var buffers = Buffers{Read: 16 << 10, Write: 4 << 10}

// start serves fresh routes by a twin and returns its address.
func start(t *testing.T, name string) string {
	t.Helper()
	server, err := New(name, routes.New(pool(), seed), buffers)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := listen.One("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// answer is what must not differ between twins.
type answer struct {
	Status  string
	Headers http.Header // without the value of Date
	Length  int64
	Body    string
}

func ask(t *testing.T, method, url string) answer {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("Date") == "" {
		t.Errorf("%s %s: no Date", method, url)
	}
	response.Header.Set("Date", "some day")
	return answer{response.Status, response.Header, response.ContentLength, string(body)}
}

// client takes answers as they are.
var client = &http.Client{
	Timeout:       20 * time.Second,
	Transport:     &http.Transport{DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func TestTwinsAnswerAlike(t *testing.T) {
	type step struct{ method, path string }
	var steps []step
	for range 5 {
		for _, path := range []string{"/simple", "/read", "/read-locked", "/read-gz", "/list", "/compute", "/compute?body=full"} {
			steps = append(steps, step{"GET", path}, step{"HEAD", path})
		}
	}
	for _, path := range []string{"/simple", "/read", "/compute?body=full"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			steps = append(steps, step{method, path})
		}
	}
	for _, path := range []string{"/", "/nothing", "/simple/", "/Simple", "/simpler", "/read/1"} {
		steps = append(steps, step{"GET", path}, step{"HEAD", path}, step{"POST", path})
	}
	for _, path := range []string{"/simple?a=b", "/read?body=full", "/compute?body=", "/compute?body=short&x=y"} {
		steps = append(steps, step{"GET", path})
	}

	addresses := make(map[string]string)
	for _, name := range Names {
		addresses[name] = start(t, name)
	}
	for n, step := range steps {
		want := ask(t, step.method, "http://"+addresses[Fiber]+step.path)
		for _, name := range []string{FastHTTP, NetHTTP} {
			got := ask(t, step.method, "http://"+addresses[name]+step.path)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("step %d, %s %s: %s and fiber differ:\n%s\n%s", n, step.method, step.path, name, short(got), short(want))
			}
		}
	}
}

func short(a answer) string {
	return fmt.Sprintf("%s %v length %d body %.60q", a.Status, a.Headers, a.Length, a.Body)
}

func TestAnswersFollowHTTP(t *testing.T) {
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			base := "http://" + start(t, name)
			reference := routes.New(pool(), seed)
			for _, route := range reference {
				want := route.Answer()
				got := ask(t, "GET", base+route.Path)
				if got.Status != "200 OK" || got.Length != int64(len(want)) || got.Body != string(want) {
					t.Errorf("GET %s: %s, want the %d bytes of the route", route.Path, short(got), len(want))
				}
				if got.Headers.Get("Content-Type") != "application/json" || got.Headers.Get("Content-Encoding") != route.ContentEncoding {
					t.Errorf("GET %s: headers %v", route.Path, got.Headers)
				}
				want = route.Answer() // HEAD takes its turn in the sequence as GET does
				got = ask(t, "HEAD", base+route.Path)
				if got.Status != "200 OK" || got.Length != int64(len(want)) || got.Body != "" {
					t.Errorf("HEAD %s: %s, want a length of %d and no body", route.Path, short(got), len(want))
				}
				got = ask(t, "POST", base+route.Path)
				if got.Status != "405 Method Not Allowed" || got.Headers.Get("Allow") != "GET, HEAD" {
					t.Errorf("POST %s: %s", route.Path, short(got))
				}
			}
			if got := ask(t, "GET", base+"/nothing"); got.Status != "404 Not Found" {
				t.Errorf("GET /nothing: %s", short(got))
			}
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	const depth, batches = 100, 3
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", start(t, name))
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			connection.SetDeadline(time.Now().Add(20 * time.Second))
			reference := routes.New(pool(), seed)
			reader := bufio.NewReader(connection)

			for range batches {
				var requests strings.Builder
				var expected [][]byte
				for n := range depth {
					route := reference[n%len(reference)]
					fmt.Fprintf(&requests, "GET %s HTTP/1.1\r\nHost: catalogue\r\n\r\n", route.Path)
					expected = append(expected, route.Answer())
				}
				written := make(chan error, 1) // large answers come before the last request has gone
				go func() { _, err := io.WriteString(connection, requests.String()); written <- err }()
				for n, want := range expected {
					response, err := http.ReadResponse(reader, nil)
					if err != nil {
						t.Fatalf("answer %d: %v", n, err)
					}
					got, err := io.ReadAll(response.Body)
					if err != nil {
						t.Fatalf("answer %d: %v", n, err)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("answer %d is %.40q, want %.40q", n, got, want)
					}
				}
				if err := <-written; err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestSimpleAllocatesNothing(t *testing.T) {
	table := routes.New(pool(), seed)
	for name, handler := range map[string]fasthttp.RequestHandler{
		FastHTTP: fastHTTPHandler(table),
		Fiber:    newFiber(table, buffers).app.Handler(),
	} {
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		serveOnce := func() {
			ctx.Request.Reset()
			ctx.Response.Reset()
			ctx.Request.SetRequestURI("/simple")
			handler(&ctx)
		}
		if allocations := testing.AllocsPerRun(1000, serveOnce); allocations != 0 {
			t.Errorf("%s allocates %.1f times per request for /simple", name, allocations)
		}
		if got := string(ctx.Response.Body()); got != `{"message":"hi"}` {
			t.Errorf("%s answers %q", name, got)
		}
	}
}

func TestAnUnknownTwinIsRefused(t *testing.T) {
	if _, err := New("apache", nil, buffers); err == nil {
		t.Error("no error")
	}
}
