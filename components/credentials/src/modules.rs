//! GET `/api/v1/profile/modules` and PUT `/api/v1/profile/modules/{name}`: the modules that can act
//! for the owner of the account without a request.

use latchmail_sdk::capability::{Caller, OwnerModule, OwnerModules};
use latchmail_sdk::{Code, Failure, Reply, Request, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::model::TokenScope;

/// The error if no module with the requested name can act for the owner.
const MISSING: (Code, &str) = (codes::MODULE_NOT_FOUND, "Module not found");

/// A set of events that a module handles.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HandledEvents {
    /// The types of the events. An empty list stands for all types.
    types: Vec<String>,
    /// The role of the folders of the events, for example `\Inbox`; `null` for all folders.
    #[schema(required)]
    folder_role: Option<String>,
}

/// A timer of a module.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModuleTimer {
    /// The name.
    name: String,
    /// The interval in seconds; `null` if the timer has a cron expression.
    #[schema(required)]
    every: Option<u32>,
    /// The cron expression in UTC; `null` if the timer has an interval.
    #[schema(required)]
    cron: Option<String>,
}

/// A module that can act for the owner of the account without a request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountModule {
    /// The name of the module.
    name: String,
    /// A description of what the module does without a request.
    description: String,
    /// The events that the module handles. Empty while the operator has disabled the module.
    events: Vec<HandledEvents>,
    /// The timers of the module. Empty while the operator has disabled the module.
    timers: Vec<ModuleTimer>,
    /// The scopes with which the module acts, in canonical order.
    #[schema(value_type = Vec<TokenScope>)]
    scopes: Vec<String>,
    /// Whether the module acts for the owner.
    enabled: bool,
    /// Whether the service has paused the module for this account, because its calls failed. The
    /// operator resumes it.
    paused: bool,
    /// The reason of the pause; `null` if the module is not paused.
    #[schema(required)]
    paused_reason: Option<String>,
}

impl From<OwnerModule> for AccountModule {
    fn from(module: OwnerModule) -> Self {
        let events = module.events.into_iter().map(|set| HandledEvents {
            types: set.types,
            folder_role: set.folder_role,
        });
        let timers = module.timers.into_iter().map(|timer| ModuleTimer {
            name: timer.name,
            every: timer.every,
            cron: timer.cron,
        });
        Self {
            name: module.name,
            description: module.description,
            events: events.collect(),
            timers: timers.collect(),
            scopes: module.scopes,
            enabled: module.enabled,
            paused: module.paused.is_some(),
            paused_reason: module.paused,
        }
    }
}

/// The modules that can act for the owner of the account.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountModuleList {
    /// The modules, sorted by name.
    modules: Vec<AccountModule>,
}

/// The state of a module for the account.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ModuleSwitch {
    /// Whether the module acts for the owner.
    enabled: bool,
}

/// List modules that act without a request
///
/// Returns the modules that handle the events of the mailbox, or that run at set times. A module
/// acts only if the owner enables it. The operator determines its scopes.
#[utoipa::path(
    get,
    path = "/api/v1/profile/modules",
    operation_id = "listAccountModules",
    tag = "Profile",
    extensions(("x-latchmail" = json!(true))),
    responses((
        status = 200,
        description = "The modules",
        body = AccountModuleList,
        links(
            ("switchAccountModule" = (operation_id = "switchAccountModule", parameters(("name" = "$response.body#/modules/0/name"))))
        )
    ))
)]
pub(crate) fn list_modules(
    host: &(impl OwnerModules + Caller),
    _: &Request,
) -> Result<Reply, Failure> {
    let modules = host
        .list_owner_modules()
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::json(&AccountModuleList {
        modules: modules.into_iter().map(AccountModule::from).collect(),
    })
}

/// Enable or disable a module
///
/// An enabled module gets the events of the mailbox from this moment on. A disabled module stops
/// within a second, and does not get the events of this time later. Enabling a module again, while
/// it is enabled, agrees to scopes that the operator has granted since then.
#[utoipa::path(
    put,
    path = "/api/v1/profile/modules/{name}",
    operation_id = "switchAccountModule",
    tag = "Profile",
    extensions(("x-latchmail" = json!(true))),
    params(("name" = String, Path, description = "The module's name")),
    request_body = ModuleSwitch,
    responses(
        (status = 200, description = "The module", body = AccountModule),
        (status = 400, description = "Invalid body", body = latchmail_sdk::Failed),
        (status = 404, description = "`Module not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn switch_module(
    host: &(impl OwnerModules + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let ModuleSwitch { enabled } = request.json()?;
    let module = host
        .set_module_enabled(request.path("name"), enabled)
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::json(&AccountModule::from(module))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, Scope};
    use latchmail_sdk::testing::{FakeHost, json, put_module, request};

    use super::*;

    fn host() -> FakeHost {
        let host = FakeHost::new();
        put_module(
            &host,
            OwnerModule {
                name: "rules".into(),
                description: "handles all events".into(),
                events: vec![latchmail_sdk::capability::HandledEvents {
                    types: vec!["message.created".into()],
                    folder_role: Some("\\Inbox".into()),
                }],
                timers: vec![latchmail_sdk::capability::ModuleTimer {
                    name: "daily".into(),
                    every: None,
                    cron: Some("0 7 * * *".into()),
                }],
                scopes: vec!["mail:read".into()],
                enabled: false,
                paused: None,
            },
        );
        host
    }

    fn expected(enabled: bool) -> serde_json::Value {
        serde_json::json!({
            "name": "rules",
            "description": "handles all events",
            "events": [{ "types": ["message.created"], "folderRole": "\\Inbox" }],
            "timers": [{ "name": "daily", "every": null, "cron": "0 7 * * *" }],
            "scopes": ["mail:read"],
            "enabled": enabled,
            "paused": false,
            "pausedReason": null,
        })
    }

    #[test]
    fn a_module_is_listed_enabled_and_disabled() {
        let host = host();
        for enabled in [true, false] {
            let body = format!(r#"{{"enabled": {enabled}}}"#);
            let put = request(&[("name", "rules")], &[], &body);
            assert_eq!(json(switch_module(&host, &put)), expected(enabled));
            let listed = json(list_modules(&host, &Request::default()));
            assert_eq!(
                listed,
                serde_json::json!({ "modules": [expected(enabled)] })
            );
        }
    }

    #[test]
    fn a_missing_module_is_404_and_only_a_session_switches_modules() {
        let host = host();
        let missing = request(&[("name", "other")], &[], r#"{"enabled": true}"#);
        let failure = switch_module(&host, &missing).unwrap_err();
        assert_eq!(failure, Failure::not_found(MISSING.0, MISSING.1));
        let invalid = request(&[("name", "rules")], &[], r#"{"enabled": 1}"#);
        assert_eq!(switch_module(&host, &invalid).unwrap_err().status, 400);
        host.use_token(&[Scope::MailRead]);
        let put = request(&[("name", "rules")], &[], r#"{"enabled": true}"#);
        assert_eq!(switch_module(&host, &put).unwrap_err().status, 403);
        let failing = FakeHost::failing(Error::Internal);
        assert_eq!(switch_module(&failing, &put).unwrap_err().status, 500);
    }
}
