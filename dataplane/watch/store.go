package watch

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// item is what is kept of an object while a list comes in: the object itself is let go as
// soon as it is read.
type item struct {
	name    objects.Name
	version string
	change  objects.Change
	service objects.Name            // of a slice
	usable  bool                    // else it is as if it was not there
	unfit   error                   // of what cannot be used in it
	ref     *corev1.ObjectReference // to it, if unfit
}

// GetObjectMeta is for client-go, which keeps a list that comes in by names.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.name.Namespace, Name: i.name.Name, ResourceVersion: i.version}
}

// GetObjectKind is for client-go, which joins the pages of a list of what it takes for objects.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject is for the same. Nobody changes an item.
func (i *item) DeepCopyObject() runtime.Object { return i }

// known is what has to be remembered of an object that was handed on.
type known struct {
	service objects.Name
	version uint64 // 0: not a number
}

// store is a Reflector's: it keeps no objects, but their names. What the loop's snapshot has of
// them is all there is. Its Reflector calls it from one goroutine.
type store struct {
	w    *Watcher
	kind objects.Kind
	read func(any) item // a typed object
	all  map[objects.Name]known
	// same tells of two states of an object that they are one; nil: no two are. It is for a
	// kind of which there is one object, whose last state is kept then.
	same func(was, now objects.Change) bool
	last *objects.Change
}

// Transformer has lists read while they come in (cache.TransformingStore).
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.item(obj), nil }
}

func (s *store) item(obj any) *item {
	if i, ok := obj.(*item); ok {
		return i
	}
	i := s.read(obj)
	if m, err := meta.Accessor(obj); err == nil {
		i.name, i.version = objects.Name{Namespace: m.GetNamespace(), Name: m.GetName()}, m.GetResourceVersion()
	}
	if i.unfit != nil {
		i.ref = reference(s.kind, obj.(object))
	}
	return &i
}

// Add takes a new object, or a new state of one.
func (s *store) Add(obj any) error {
	s.w.note(s.set(nil, s.item(obj))...)
	return nil
}

// Update is Add.
func (s *store) Update(obj any) error { return s.Add(obj) }

// Delete takes the end of an object.
func (s *store) Delete(obj any) error {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	s.w.note(s.end(nil, s.item(obj).name)...)
	return nil
}

// Replace takes a whole list: of what is not in it has been the end. A list tells again of what
// is the same.
func (s *store) Replace(list []any, _ string) error {
	var out []objects.Change
	there := make(map[objects.Name]bool, len(list))
	for n, obj := range list {
		i := s.item(obj)
		list[n] = nil
		there[i.name] = true
		if was, ok := s.all[i.name]; ok && was.version != 0 && was.version == number(i.version) {
			continue
		}
		out = s.set(out, i)
	}
	for name := range s.all {
		if !there[name] {
			out = s.end(out, name)
		}
	}
	s.w.list(s.kind, out)
	return nil
}

// Resync is for stores that do something by themselves.
func (s *store) Resync() error { return nil }

// set adds an object's new state, after the end of its old one if it has moved.
func (s *store) set(out []objects.Change, i *item) []objects.Change {
	s.w.judge(about{s.kind, i.name}, i)
	was, had := s.all[i.name]
	if had && (!i.usable || was.service != i.service) {
		out = append(out, gone(s.kind, i.name, was.service))
		delete(s.all, i.name)
	}
	if !i.usable {
		return out
	}
	s.all[i.name] = known{i.service, number(i.version)}
	if s.same != nil {
		last := s.last
		if s.last = &i.change; last != nil && s.same(*last, i.change) {
			return out
		}
	}
	return append(out, i.change)
}

func (s *store) end(out []objects.Change, name objects.Name) []objects.Change {
	was, had := s.all[name]
	s.w.forget(about{s.kind, name})
	if !had {
		return out
	}
	delete(s.all, name)
	s.last = nil
	return append(out, gone(s.kind, name, was.service))
}

// number is a resource version as one, 0 if it is none.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func gone(kind objects.Kind, name, service objects.Name) objects.Change {
	return objects.Change{Gone: &objects.Gone{Kind: kind, Name: name, Service: service}}
}

// pageSize is how many objects a list is asked for at a time: client-go's own number.
const pageSize = 500

// listWatch asks for one kind of objects, by labels and fields.
//
// A list comes in pages, each read into items and let go. A Reflector would ask for pages "not
// older than" what it knows: with version 0 the server ignores the limit and answers with all
// objects at once, with another it takes the version for the exact one. So the newest is asked
// for, which costs the server a consistent read. A list whose version is compacted between two
// pages is made again, by the Reflector, at once and whole.
func listWatch[L runtime.Object](client any, into *store, labels, fields string, list func(context.Context, metav1.ListOptions) (L, error), watch watchFunc) cache.ListerWatcher {
	only := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = labels, fields
		return o
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Limit > 0 && o.Continue == "" {
				o.ResourceVersion, o.ResourceVersionMatch = "", ""
			}
			raw, err := list(ctx, only(o))
			if err != nil {
				return nil, err
			}
			return into.page(raw)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watchInterface, error) {
			return watch(ctx, only(o))
		},
	}, client)
}

// page is a list, or a part of one, of items.
func (s *store) page(raw runtime.Object) (*internalversion.List, error) {
	m, err := meta.ListAccessor(raw)
	if err != nil {
		return nil, err
	}
	out := &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: m.GetResourceVersion(), Continue: m.GetContinue()}}
	return out, meta.EachListItem(raw, func(o runtime.Object) error {
		out.Items = append(out.Items, s.item(o))
		return nil
	})
}
