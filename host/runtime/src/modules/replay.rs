//! Replays a recorded request into a sandbox. The results of host calls come from the recording, so
//! a replay reads and changes nothing outside the sandbox. It needs no permits of requests, and
//! counts in no metrics.

use std::mem;

use latchmail_core::caller::Origin;
use tokio::time::timeout;

use super::comparison::Snapshot;
use super::convert;
use super::limits::{self, CpuTime};
use super::manifest::Route;
use super::message::Request;
use super::module::Module;
use super::recording::RecordedRequest;
use super::sandbox::Instance;
use crate::api::{Ambient, Call, MissingCall, Replay, Tape};

/// The result of a replay.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The response, or the reason why there is none. The reason contains no data of the caller.
    pub(crate) response: Result<Snapshot, String>,
    /// The first host call that the recording does not contain. It ended the replay.
    pub(crate) missing: Option<MissingCall>,
    /// The functions of recorded calls that were not repeated.
    pub(crate) left: Vec<String>,
}

impl Replayed {
    fn failed(reason: &str) -> Self {
        Self {
            response: Err(reason.into()),
            missing: None,
            left: Vec::new(),
        }
    }
}

impl Module {
    /// Replays a request into a new sandbox of this version, as a request of `route`. `names` are
    /// the names of the segments in the path of the route; if it is empty, the names do not change.
    /// The caller must have a sandbox permit.
    pub(crate) async fn replay(
        &self,
        route: &Route,
        names: &[String],
        recorded: &RecordedRequest,
        ambient: Ambient,
    ) -> Replayed {
        let mut request = recorded.request.copy_for_module();
        for ((name, _), new) in request.path.iter_mut().zip(names) {
            name.clone_from(new);
        }
        let mut call = self.new_call(None, Origin::default());
        call.tape = Tape::Replay(Replay::new(&recorded.calls, ambient));
        let replay = Box::pin(self.run_replay(route, request, call));
        let deadline = self.deadline.min(route.deadline);
        let replayed = timeout(deadline, replay).await;
        replayed.unwrap_or_else(|_| Replayed::failed("it passes its deadline"))
    }

    async fn run_replay(&self, route: &Route, request: Request, call: Call) -> Replayed {
        let mut cpu = CpuTime::new(self.budget.cpu);
        let instance = Instance::new(&self.engine, &self.linked, call, self.budget, None);
        let Ok(mut instance) = cpu.spend(instance).await else {
            return Replayed::failed("it cannot be instantiated");
        };
        let response = self
            .call_replayed(route, request, &mut cpu, &mut instance)
            .await;
        let (missing, left) = match mem::take(&mut instance.store.data_mut().call.tape) {
            Tape::Replay(replay) => replay.finish(),
            Tape::Off | Tape::Recording(_) => (None, Vec::new()),
        };
        cpu.run_exclusively(|| drop(instance));
        Replayed {
            response,
            missing,
            left,
        }
    }

    /// Calls the guest. The error is a phrase without data of the caller.
    async fn call_replayed(
        &self,
        route: &Route,
        request: Request,
        cpu: &mut CpuTime,
        instance: &mut Instance,
    ) -> Result<Snapshot, String> {
        let store = &mut instance.store;
        let request = convert::request(request, route.body, &mut store.data_mut().call.table)
            .map_err(|_| "it has too many handles")?;
        let module = instance.guest.module().ok_or("it has no routes")?;
        let called = cpu
            .spend(module.call_handle(&mut *store, &route.operation, &request))
            .await;
        let response = called.map_err(|error| {
            let exceeded = limits::exceeded(&error, store.hostcall_fuel());
            // The reason for any other trap can contain the output of the guest.
            exceeded.map_or_else(|| String::from("it traps"), |exceeded| exceeded.to_string())
        })?;
        let call = &mut store.data_mut().call;
        let json_strings = mem::take(&mut call.json_strings);
        convert::response(response, json_strings, self.budget, &mut call.table)
            .map(Snapshot::from)
            .map_err(|_| "it returns an invalid response".into())
    }
}
