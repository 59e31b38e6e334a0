//! What a component may call: one file an interface of the WIT package. Each function checks the caller's right, converts,
//! delegates, converts back, and does nothing else.
//!
//! [`Call`] is what they all act on: one request's caller and what the host holds on its behalf. No account comes from a guest.

mod blobs;
mod caller;
mod config;
mod convert;
mod log;
mod mailbox;
mod outbox;

pub(crate) use log::bounded;

use std::collections::BTreeMap;
use std::sync::Arc;

use latchmail_bindings::latchmail::host::types::Error;
use wasmtime::component::ResourceTable;

use crate::caller::{Caller, Scope};
use crate::mail::{Access, Mail};
use crate::outbox::{Outbox, Sender};

/// Handles that a guest may hold at a time: each costs the host memory.
const MOST_HANDLES: usize = 1024;

/// The rooms that capabilities delegate to.
#[derive(Clone, Debug)]
pub struct Services {
    /// The mailboxes.
    pub mail: Arc<Mail>,
    /// What leaves.
    pub outbox: Arc<Outbox>,
}

/// One request, as the capabilities see it.
#[derive(Debug)]
pub struct Call {
    services: Services,
    module: Arc<str>,
    settings: Arc<BTreeMap<String, String>>,
    caller: Option<Caller>,
    lines: u32,
    /// The sender that was checked in this call.
    sender: Option<Sender>,
    /// The host's resources that the guest holds handles of: they end with the call.
    pub table: ResourceTable,
}

impl Call {
    /// A call of `module` on behalf of `caller`; without one for a public route, and while a module is asked what it is.
    #[must_use]
    pub fn new(
        services: Services,
        module: Arc<str>,
        settings: Arc<BTreeMap<String, String>>,
        caller: Option<Caller>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(MOST_HANDLES);
        Self {
            services,
            module,
            settings,
            caller,
            lines: 0,
            sender: None,
            table,
        }
    }

    /// The caller's own mailbox, where its credential holds `scope`. Asked at every call, whatever the route declared.
    fn mailbox(&self, scope: Scope) -> Result<Access, Error> {
        let caller = self
            .caller
            .as_ref()
            .ok_or_else(|| Error::Denied("There is no caller".into()))?;
        if !caller.holds(scope) {
            return Err(Error::Denied(format!(
                "This credential is missing the \"{scope}\" scope"
            )));
        }
        Ok(Access {
            account: caller.account.clone(),
            credential: caller.mail.clone(),
        })
    }
}
