//! The state of one request to the API: the caller, the ids of created objects, and what several
//! methods read.

use std::collections::BTreeMap;
use std::rc::Rc;

use latchmail_sdk::capability::{Folder, Identity, Scope};
use serde_json::Value;

use crate::Capabilities;
use crate::error::MethodError;
use crate::ids;

/// The state of one request.
pub(crate) struct Context<'h, H> {
    pub(crate) host: &'h H,
    /// The id of the request, for Message-IDs.
    pub(crate) request: String,
    pub(crate) caller: Identity,
    pub(crate) account: String,
    /// The ids of created objects, by creation id.
    pub(crate) created: BTreeMap<String, String>,
    /// The responses of methods that the current method has called, which follow its own response.
    pub(crate) implied: Vec<(&'static str, Value)>,
    /// The number of Message-IDs that this request has generated.
    pub(crate) message_ids: u32,
    folders: Option<Rc<Vec<Folder>>>,
}

impl<'h, H: Capabilities> Context<'h, H> {
    pub(crate) fn new(host: &'h H, request: &str) -> Self {
        let caller = host.current();
        Self {
            account: ids::of_address(&caller.address),
            host,
            request: request.into(),
            caller,
            created: BTreeMap::new(),
            implied: Vec::new(),
            message_ids: 0,
            folders: None,
        }
    }

    /// Returns whether the caller has a scope.
    pub(crate) fn holds(&self, scope: Scope) -> bool {
        self.caller.holds(scope)
    }

    /// Checks that the caller may change the mailbox.
    pub(crate) fn require_write(&self) -> Result<(), MethodError> {
        if self.holds(Scope::MailWrite) {
            Ok(())
        } else {
            Err(MethodError::new("accountReadOnly"))
        }
    }

    /// Returns the folders of the mailbox. A request reads the folders once, and again after it has
    /// changed them.
    pub(crate) fn folders(&mut self) -> Result<Rc<Vec<Folder>>, MethodError> {
        if let Some(folders) = &self.folders {
            return Ok(Rc::clone(folders));
        }
        let folders = Rc::new(self.host.list_folders()?);
        self.folders = Some(Rc::clone(&folders));
        Ok(folders)
    }

    /// Drops the folders that were read, because they change.
    pub(crate) fn forget_folders(&mut self) {
        self.folders = None;
    }

    /// Returns the path of the folder with an id.
    pub(crate) fn path_of(&mut self, id: &str) -> Result<Option<String>, MethodError> {
        let folders = self.folders()?;
        let found = folders.iter().find(|folder| folder.id == id);
        Ok(found.map(|folder| folder.path.clone()))
    }

    /// Returns an id. An id that begins with `#` stands for the object with this creation id.
    pub(crate) fn resolve<'a>(&'a self, id: &'a str) -> &'a str {
        let created = id.strip_prefix('#').and_then(|id| self.created.get(id));
        created.map_or(id, String::as_str)
    }
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let elapsed = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let elapsed = elapsed.map_or(0, |elapsed| elapsed.as_millis());
    i64::try_from(elapsed).unwrap_or(i64::MAX)
}
