package simulation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// waitForEnd calls WaitGeneration until the generation has ended.
func (c *caller) waitForEnd(id string) {
	for tries := 0; !c.over(); tries++ {
		ctx, cancel := context.WithTimeout(c.world.ctx, 90*time.Second)
		resp, err := c.endpoint().grpc.WaitGeneration(c.endpoint().signedContext(ctx), &easelv1.WaitGenerationRequest{
			GenerationId: id, Timeout: durationpb.New(time.Duration(10+c.random.IntN(60)) * time.Second),
		})
		cancel()
		if c.noteResponse(id, resp.GetGeneration(), err) {
			return
		}
		if status.Code(err) == codes.NotFound && tries > 60 {
			return
		}
		c.pause(time.Second)
	}
}

// readUntilEnd calls GetGeneration until the generation has ended.
func (c *caller) readUntilEnd(id string) {
	staleness := []*durationpb.Duration{nil, durationpb.New(0), durationpb.New(5 * time.Second)}[c.random.IntN(3)]
	for tries := 0; !c.over(); tries++ {
		ctx, cancel := context.WithTimeout(c.world.ctx, 30*time.Second)
		resp, err := c.endpoint().grpc.GetGeneration(c.endpoint().signedContext(ctx), &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: staleness})
		cancel()
		if c.noteResponse(id, resp.GetGeneration(), err) {
			return
		}
		if status.Code(err) == codes.NotFound && tries > 60 {
			return
		}
		c.pause(time.Duration(2+min(tries, 20)) * time.Second)
	}
}

// noteResponse records the response to a unary call as an event. It reports whether the generation has ended.
func (c *caller) noteResponse(id string, g *easelv1.Generation, err error) bool {
	process := c.endpoint().replica.currentProcess().name
	if err != nil {
		if code, reason := c.noteFailure(promises.Event{Generation: id, Process: process}, err); code == codes.Unavailable && reason == "" {
			c.switchEndpoint()
		}
		return false
	}
	c.note(promises.Event{
		Kind: promises.Read, Generation: id, Process: process, State: g.GetState(), Etag: g.GetEtag(),
		Observed: c.world.sinceStart(g.GetObserveTime().AsTime()),
	})
	c.world.checkOwner(c, g)
	if promises.IsEnd(g.GetState()) {
		c.note(promises.Event{Kind: promises.Done, Generation: id, State: g.GetState()})
		return true
	}
	return false
}

// listLatest requests the latest generations of the caller's tenant.
func (c *caller) listLatest() {
	ctx, cancel := context.WithTimeout(c.world.ctx, 30*time.Second)
	defer cancel()
	resp, err := c.endpoint().grpc.ListGenerations(c.endpoint().signedContext(ctx), &easelv1.ListGenerationsRequest{PageSize: 20})
	if err != nil {
		c.noteFailure(promises.Event{Process: c.endpoint().replica.currentProcess().name}, err)
	}
	for _, g := range resp.GetGenerations() {
		c.note(promises.Event{Kind: promises.Listed, Generation: g.GetGenerationId()})
		c.world.checkOwner(c, g)
	}
}

// memory contains the generations that a caller has received in watches of many generations. It maps the ID of each
// generation to its latest state. A caller keeps its memory when it reconnects.
type memory map[string]promises.Known

// etags returns the etags that the caller knows, keyed by generation ID.
func (m memory) etags() map[string]string {
	etags := map[string]string{}
	for id, r := range m {
		etags[id] = r.Etag
	}
	return etags
}

// followAll watches several generations in one stream until all have ended.
func (c *caller) followAll(ids []string) {
	m := memory{}
	open := slices.Clone(ids)
	for tries := 0; !c.over() && len(open) > 0; tries++ {
		if !c.watchMany(manyViewing{ids: open}, m) {
			c.switchEndpoint()
		}
		open = slices.DeleteFunc(open, func(id string) bool {
			if promises.IsEnd(m[id].State) {
				c.note(promises.Event{Kind: promises.Done, Generation: id, State: m[id].State})
				return true
			}
			return false
		})
		c.pause(time.Duration(300+200*min(tries, 10)) * time.Millisecond)
	}
}

// watchEverything watches all of the tenant's generations for the given time, over several consecutive streams. With a
// probability of 50 %, it watches only the generations of one model instead.
func (c *caller) watchEverything(length time.Duration) {
	m, until := memory{}, time.Now().Add(length)
	model := []string{"", "studio/haiku"}[c.random.IntN(2)]
	for !c.over() && time.Now().Before(until) {
		if !c.watchMany(manyViewing{model: model, limit: min(20*time.Second, time.Until(until))}, m) {
			c.switchEndpoint()
		}
		for id, r := range m {
			if r.State == easelv1.State_STATE_DELETED {
				delete(m, id)
			}
		}
		c.pause(time.Second)
	}
}

// manyViewing describes a watch of many generations.
type manyViewing struct {
	ids   []string // IDs of the watched generations; empty means all
	model string   // if not empty, only generations with this model are watched
	limit time.Duration
}

// request returns the request that opens the stream.
func (v manyViewing) request(every time.Duration, m memory) *easelv1.WatchGenerationsRequest {
	req := &easelv1.WatchGenerationsRequest{GenerationIds: v.ids, HeartbeatInterval: durationpb.New(every), KnownEtags: m.etags()}
	if v.model != "" {
		req.Filter = &easelv1.GenerationFilter{ModelId: v.model}
	}
	return req
}

// watchMany watches many generations in one stream until the stream ends, and stores the delivered states in m. It
// returns false if the stream was silent for too long.
func (c *caller) watchMany(v manyViewing, m memory) (heard bool) {
	c.stream++
	d, every := c.endpoint(), c.heartbeatInterval(0)
	stream, process := c.stream, d.replica.currentProcess().name
	say := func(e promises.Event) {
		e.Stream, e.Process, e.Heartbeat = stream, process, every
		c.note(e)
	}
	patience := c.patience(every)
	say(promises.Event{Kind: promises.Opened, Text: fmt.Sprint(len(v.ids), " generations"), Named: slices.Clone(v.ids), Known: maps.Clone(m), Model: v.model})
	err, cause := readStream(c, reading{patience, 0, v.limit}, func(ctx context.Context) (func() (*easelv1.WatchGenerationsResponse, error), error) {
		stream, err := d.grpc.WatchGenerations(d.signedContext(ctx), v.request(every, m))
		if err != nil {
			return nil, err
		}
		return stream.Recv, nil
	}, func(message *easelv1.WatchGenerationsResponse) { c.recordMany(say, message, m) })
	switch {
	case errors.Is(err, io.EOF):
		say(promises.Event{Kind: promises.EndedOK})
	case errors.Is(cause, errEnough) || c.over():
	case errors.Is(cause, errSilence):
		say(promises.Event{Kind: promises.Silent})
		return false
	default:
		c.noteFailure(promises.Event{Stream: stream, Process: process, Heartbeat: every}, err)
		if status.Code(err) == codes.Unavailable {
			c.switchEndpoint()
		}
	}
	return true
}

// recordMany records a message from a watch of many generations. If the message contains a state, recordMany also
// stores the state in m.
func (c *caller) recordMany(say func(promises.Event), message *easelv1.WatchGenerationsResponse, m memory) {
	switch {
	case message.GetUpdate() != nil:
		g := message.GetUpdate().GetGeneration()
		m[g.GetGenerationId()] = promises.Known{Etag: g.GetEtag(), State: g.GetState()}
		c.recordState(func(e promises.Event) { e.Generation, e.Model = g.GetGenerationId(), g.GetModelId(); say(e) }, g, message.GetUpdate().GetInitial())
	case message.GetHeartbeat() != nil:
		say(promises.Event{Kind: promises.Heartbeat, Text: conditionName(message.GetHeartbeat())})
	case message.GetCaughtUp() != nil:
		say(promises.Event{Kind: promises.CaughtUp, Text: fmt.Sprint(message.GetCaughtUp().GetGenerationCount())})
	case message.GetClosing() != nil:
		say(promises.Event{Kind: promises.Closing})
	}
}

// readNew reads a generation once, and does not accept a cached state.
func (c *caller) readNew(id string) {
	ctx, cancel := context.WithTimeout(c.world.ctx, 30*time.Second)
	defer cancel()
	resp, err := c.endpoint().grpc.GetGeneration(c.endpoint().signedContext(ctx), &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: durationpb.New(0)})
	c.noteResponse(id, resp.GetGeneration(), err)
}

// tryEveryCall gets, waits for, deletes, watches and downloads a generation. It returns the errors, keyed by the kind
// of call.
func (c *caller) tryEveryCall(id string) map[string]error {
	d := c.endpoint()
	ctx, cancel := context.WithTimeout(d.signedContext(c.world.ctx), 20*time.Second)
	defer cancel()
	tried := map[string]error{}
	_, tried["get"] = d.grpc.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: id})
	_, tried["wait"] = d.grpc.WaitGeneration(ctx, &easelv1.WaitGenerationRequest{GenerationId: id, Timeout: durationpb.New(5 * time.Second)})
	_, tried["delete"] = d.grpc.DeleteGeneration(ctx, &easelv1.DeleteGenerationRequest{GenerationId: id})
	if stream, err := d.grpc.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}); err == nil {
		message, err := stream.Recv()
		for err == nil && message.GetUpdate() == nil { // a heartbeat or a closing message contains no state of the generation
			message, err = stream.Recv()
		}
		tried["watch"] = err
	}
	if stream, err := d.grpc.DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: id}); err == nil {
		_, tried["download"] = stream.Recv()
	}
	return tried
}

// download downloads a file. After each error, it resumes the download. If the replica is unavailable, it resumes from
// another one.
func (c *caller) download(id string) {
	var data []byte
	etag := ""
	for tries := 0; !c.over() && tries < 200; tries++ {
		err := c.fetch(id, &data, &etag)
		if errors.Is(err, io.EOF) {
			c.note(promises.Event{Kind: promises.Downloaded, Generation: id, Text: fmt.Sprintf("%x", sha256.Sum256(data))})
			return
		}
		switch code, reason := c.noteFailure(promises.Event{Generation: id, Process: c.endpoint().replica.currentProcess().name}, err); {
		case code == codes.DataLoss: // the file has changed
			data, etag = nil, ""
		case code == codes.Unavailable && reason == "":
			c.switchEndpoint()
		}
		c.pause(max(retryDelay(err), 500*time.Millisecond))
	}
}

// fetch appends the rest of a file to data, which contains the start of the file. It returns io.EOF at the end.
func (c *caller) fetch(id string, data *[]byte, etag *string) error {
	ctx, cancel := context.WithTimeout(c.world.ctx, 2*time.Minute)
	defer cancel()
	stream, err := c.endpoint().grpc.DownloadGeneration(c.endpoint().signedContext(ctx), &easelv1.DownloadGenerationRequest{
		GenerationId: id, ReadOffset: int64(len(*data)), Etag: *etag,
	})
	for err == nil {
		var m *easelv1.DownloadGenerationResponse
		m, err = stream.Recv()
		if info := m.GetChunk().GetInfo(); info != nil {
			*etag = info.GetEtag()
		}
		*data = append(*data, m.GetChunk().GetData()...)
	}
	return err
}
