//! Streams, events, and graphs captured from them.

use super::array::Memory;
use super::context::{Context, lock_driver};
use super::module::Module;
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};
use std::cell::RefCell;
use std::sync::Arc;

/// Work in order.
pub struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
}

// SAFETY: a stream may be used from any thread that has its context, which every entry binds.
unsafe impl Send for Stream {}

impl Stream {
    /// A new stream that waits for nobody.
    pub fn new(context: &Arc<Context>) -> Result<Stream> {
        context.bind()?;
        let raw = context.call("cuStreamCreate", result::stream::create(result::stream::StreamKind::NonBlocking))?;
        Ok(Stream { context: context.clone(), raw })
    }

    /// Its card.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Waits until all of it is done.
    pub fn wait(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the stream is alive.
        self.context.call("cuStreamSynchronize", unsafe { result::stream::synchronize(self.raw) })
    }

    /// What follows here waits for an event.
    pub fn after(&self, event: &Event) -> Result<()> {
        self.context.bind()?;
        // SAFETY: both are alive.
        let waits =
            unsafe { result::stream::wait_event(self.raw, event.raw, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) };
        self.context.call("cuStreamWaitEvent", waits)
    }

    /// Captures what `work` puts on this stream (and on streams that it forks and joins by events) as a graph.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let _lock = lock_driver();
        self.context.bind()?;
        // SAFETY: the stream is alive; the capture is ended below whatever `work` says.
        self.context.call("cuStreamBeginCapture", unsafe { result::stream::begin_capture(self.raw, mode) })?;
        // A capture within a capture is of another stream, and its graph is another's child at most: each has its own.
        let outer = HELD.replace(Some(Held::default()));
        let worked = work();
        let held = HELD.replace(outer).unwrap_or_default();
        // SAFETY: begun above.
        let graph = unsafe { result::stream::end_capture(self.raw) };
        if let Err(why) = worked {
            if let Ok(graph) = graph
                && !graph.is_null()
            {
                // SAFETY: given just now and not used elsewhere.
                let _ = unsafe { result::graph::destroy(graph) };
            }
            return Err(why);
        }
        let graph = self.context.call("cuStreamEndCapture", graph)?;
        Graph::new(&self.context, graph, held)
    }

    /// Whether what is put on it becomes part of a graph.
    pub(super) fn is_capturing(&self) -> Result<bool> {
        use sys::CUstreamCaptureStatus_enum as S;
        self.context.bind()?;
        // SAFETY: the stream is alive.
        let status = unsafe { result::stream::is_capturing(self.raw) };
        Ok(self.context.call("cuStreamIsCapturing", status)? != S::CU_STREAM_CAPTURE_STATUS_NONE)
    }
}

/// What a graph's nodes reach: it lives as long as the graph.
#[derive(Default)]
struct Held {
    memory: Vec<Arc<Memory>>,
    modules: Vec<Arc<Module>>,
}

thread_local! {
    /// What this thread's capture has reached so far.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Notes memory that work on a stream will reach, for the graph that is being captured, if one is.
pub(super) fn hold<'a>(stream: &Stream, memory: impl IntoIterator<Item = &'a Arc<Memory>>) -> Result<()> {
    if !stream.is_capturing()? {
        return Ok(());
    }
    HELD.with_borrow_mut(|held| {
        let held = held
            .as_mut()
            .ok_or_else(|| Error::Invalid("another thread is capturing a graph from this stream".into()))?;
        for memory in memory.into_iter() {
            if !held.memory.iter().any(|other| Arc::ptr_eq(other, memory)) {
                held.memory.push(memory.clone());
            }
        }
        Ok(())
    })
}

/// Notes a module whose kernel is launched, for the graph that this thread is capturing, if it is.
pub(super) fn hold_module(module: &Arc<Module>) {
    HELD.with_borrow_mut(|held| {
        let Some(held) = held else { return };
        if !held.modules.iter().any(|other| Arc::ptr_eq(other, module)) {
            held.modules.push(module.clone());
        }
    });
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// A point in a stream.
pub struct Event {
    context: Arc<Context>,
    raw: sys::CUevent,
}

// SAFETY: as for streams.
unsafe impl Send for Event {}

impl Event {
    /// For order alone, or for times as well.
    pub fn new(context: &Arc<Context>, timed: bool) -> Result<Event> {
        use sys::CUevent_flags_enum as F;
        context.bind()?;
        let flags = if timed { F::CU_EVENT_DEFAULT } else { F::CU_EVENT_DISABLE_TIMING };
        let raw = context.call("cuEventCreate", result::event::create(flags))?;
        Ok(Event { context: context.clone(), raw })
    }

    /// Marks the point where the stream is now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.context.bind()?;
        // SAFETY: both are alive.
        self.context.call("cuEventRecord", unsafe { result::event::record(self.raw, stream.raw) })
    }

    /// Milliseconds from another event to this one, both timed and over.
    pub fn since(&self, start: &Event) -> Result<f64> {
        self.context.bind()?;
        // SAFETY: both are alive; an event that is not over is an error, not undefined.
        let waited = unsafe { result::event::synchronize(self.raw) };
        self.context.call("cuEventSynchronize", waited)?;
        // SAFETY: as above.
        self.context.call("cuEventElapsedTime", unsafe { result::event::elapsed(start.raw, self.raw) }).map(f64::from)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}

/// Work that was captured and is replayed.
pub struct Graph {
    context: Arc<Context>,
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    nodes: usize,
    _held: Held,
}

// SAFETY: as for streams.
unsafe impl Send for Graph {}

/// A graph has at most about so many nodes; longer loops are replays with counters on the device.
const MOST_NODES: usize = 2000;

impl Graph {
    fn new(context: &Arc<Context>, graph: sys::CUgraph, held: Held) -> Result<Graph> {
        let mut nodes = 0;
        // SAFETY: the graph was just captured; only the number is asked for.
        let counted = unsafe { sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut nodes).result() };
        let counted = context.call("cuGraphGetNodes", counted).and_then(|()| {
            if nodes <= MOST_NODES {
                return Ok(());
            }
            Err(Error::Invalid(format!("a step has {nodes} nodes, and a graph can have at most {MOST_NODES}")))
        });
        // SAFETY: as above.
        let exec = counted.and_then(|()| {
            let made = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
            context.call("cuGraphInstantiate", made)
        });
        match exec {
            Ok(exec) => Ok(Graph { context: context.clone(), graph, exec, nodes, _held: held }),
            Err(why) => {
                // SAFETY: captured, and used nowhere else.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(why)
            }
        }
    }

    /// Nodes of the graph.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Replays it.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.context.bind()?;
        // SAFETY: both are alive, and the memory of its nodes is kept by whoever keeps the graph.
        self.context.call("cuGraphLaunch", unsafe { result::graph::launch(self.exec, stream.raw) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created in `new`, destroyed once.
            unsafe {
                let _ = result::graph::exec_destroy(self.exec);
                let _ = result::graph::destroy(self.graph);
            }
        }
    }
}
