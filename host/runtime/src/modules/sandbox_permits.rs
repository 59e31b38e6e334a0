//! Permits for sandboxes. The service creates the permits at its start, and divides them into
//! groups. Each module with a section in the configuration has a separate group. All other modules
//! share one group. So a module with its own group cannot use the permits of another module. The
//! handlers of all modules share a separate group. Spare permits are used to load modules.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchmail_core::config::{self, Config};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of permits that modules without a section share if the configuration has
/// `[new_modules]`.
const SHARED: u32 = 256;

/// The number of shared permits if the configuration has no `[new_modules]`. They are for modules
/// that get a section while the service runs.
const SHARED_FOR_LATER: u32 = 32;

/// The number of spare permits. They allow the service to examine and test a module while all other
/// permits are in use.
const SPARE: u32 = 4;

/// A permit for one sandbox. The permit must be released after the sandbox is dropped.
pub(super) type SandboxPermit = OwnedSemaphorePermit;

/// The permits for all sandboxes of the service.
#[derive(Debug)]
pub(super) struct SandboxPermits {
    by_module: BTreeMap<String, PermitGroup>,
    shared: PermitGroup,
    handlers: PermitGroup,
    spare: PermitGroup,
}

/// The permits of one module, or the permits that several modules share.
#[derive(Clone, Debug)]
pub(super) struct PermitGroup {
    permits: Arc<Semaphore>,
    size: u32,
    /// Whether several modules use this group.
    is_shared: bool,
}

impl SandboxPermits {
    /// Creates the groups for the modules of the configuration.
    pub(super) fn new(config: &Config) -> Self {
        let group = |(name, policy): (&String, &config::Module)| {
            (name.clone(), PermitGroup::new(policy.concurrency, false))
        };
        let shared = match config.new_modules {
            Some(_) => SHARED,
            None => SHARED_FOR_LATER,
        };
        Self {
            by_module: config.modules.iter().map(group).collect(),
            shared: PermitGroup::new(shared, true),
            handlers: PermitGroup::new(config.handlers.concurrency, true),
            spare: PermitGroup::new(SPARE, true),
        }
    }

    /// Returns the number of all permits. This is the maximum number of sandboxes that exist
    /// concurrently.
    pub(super) fn size(&self) -> u32 {
        let by_module = self.by_module.values().map(PermitGroup::size).sum::<u32>();
        by_module + self.shared.size + self.handlers.size + self.spare.size
    }

    /// Returns the group of permits that a module uses.
    pub(super) fn of_module(&self, name: &str) -> &PermitGroup {
        self.by_module.get(name).unwrap_or(&self.shared)
    }

    /// Returns the permits for the handlers of all modules. Requests do not use them.
    pub(super) fn handlers(&self) -> &PermitGroup {
        &self.handlers
    }

    /// Returns the spare permits, which are used to load modules.
    pub(super) fn spare(&self) -> &PermitGroup {
        &self.spare
    }
}

impl PermitGroup {
    fn new(size: u32, is_shared: bool) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(size as usize)),
            size,
            is_shared,
        }
    }

    /// Returns the number of permits in the group.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Waits for a permit. The result is always `Some`, because the semaphore is never closed.
    pub(super) async fn acquire(&self) -> Option<SandboxPermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Returns whether idle sandboxes can keep their permits. In a shared group, at least half of
    /// the permits must be free.
    pub(super) fn allows_idle(&self) -> bool {
        !self.is_shared || self.permits.available_permits() * 2 >= self.size as usize
    }
}
