//! `/admin/api/v1/modules`. The operator's socket and the routes of administrators have more
//! operations on modules.

use http::StatusCode;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::secrets::{sha256_hex, sha256_hex_of_bytes};
use latchmail_runtime::manager::report::{Report, State};
use latchmail_runtime::manager::{NewComponent, StateChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{self, Paging, check_version, flag, present, segment};
use super::state::OperatorState;
use crate::app::App;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// The name of the list, to which cursors are bound.
const LIST: &str = "modules";
/// The fields that a client can send back, and that have no effect.
const READ_ONLY: [&str; 4] = ["name", "version", "digest", "problem"];

/// A module.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InstalledModule)]
struct Module {
    /// The name.
    name: String,
    /// The version, as its manifest names it. For a disabled module, the version that was installed
    /// last.
    version: Option<String>,
    /// The SHA-256 digest of the component, in hexadecimal.
    digest: Option<String>,
    /// Whether the module is enabled.
    enabled: bool,
    /// The reason why an enabled module does not serve.
    problem: Option<String>,
}

impl Module {
    fn of(report: &Report) -> Self {
        let summary = &report.summary;
        let mut versions = report.versions.iter();
        let stored = match &summary.digest {
            Some(digest) => versions.find(|stored| stored.digest == *digest),
            None => versions.next(),
        };
        let version = summary.version.as_ref();
        let digest = summary.digest.as_ref();
        Self {
            name: summary.name.clone(),
            version: version.or(stored.map(|stored| &stored.version)).cloned(),
            digest: digest.or(stored.map(|stored| &stored.digest)).cloned(),
            enabled: !matches!(summary.state, State::Disabled),
            problem: summary.problem.clone(),
        }
    }

    fn version_tag(&self) -> String {
        let (name, version, digest) = (&self.name, &self.version, &self.digest);
        let fields = (name, version, digest, self.enabled, &self.problem);
        let mut digest = sha256_hex(&format!("{fields:?}"));
        digest.truncate(32);
        digest
    }
}

/// A page of modules.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InstalledModules)]
struct Modules {
    /// The modules, sorted by name.
    modules: Vec<Module>,
    /// The cursor of the next page, or `null` if this is the last page.
    next_cursor: Option<String>,
}

/// A module to install.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewModule {
    /// The component, in standard base64.
    #[schema(value_type = String, content_encoding = "base64")]
    component: usize,
    /// The name of the module if the component has no manifest with a name.
    #[serde(default)]
    name: Option<String>,
    /// Whether the caller consents to the replacement of the serving version, and to permissions
    /// that this version does not have.
    #[serde(default)]
    accept: bool,
}

/// The changes of a module.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChangedModule {
    /// Whether the module is enabled.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    enabled: Option<bool>,
}

/// Lists the modules.
///
/// # Errors
/// Returns 400 if a parameter is invalid.
#[utoipa::path(
    get,
    path = "/admin/api/v1/modules",
    operation_id = "readModules",
    tag = "Modules",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number of modules. The default is 100"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, description = "A page of modules", body = Modules)),
)]
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let paging = Paging::of(app, request, LIST)?;
    let names = app.module_manager.list().into_iter();
    let names = names.map(|summary| summary.name);
    let wanted = usize::try_from(paging.wanted()).unwrap_or(usize::MAX);
    let names = names.filter(|name| *name > paging.after).take(wanted);
    let mut names: Vec<String> = names.collect();
    let next_cursor = paging.next(app, LIST, &mut names, Clone::clone)?;
    let mut modules = Vec::with_capacity(names.len());
    for name in names {
        modules.push(Module::of(&app.module_manager.show(&name).await?));
    }
    let page = Modules {
        modules,
        next_cursor,
    };
    message::json(StatusCode::OK, &page)
}

/// Installs a module, or a new version of a module.
///
/// A request with the component that already serves changes nothing, so it can be repeated.
///
/// # Errors
/// Returns 400 if the component is not a module, and 409 if it cannot be installed.
#[utoipa::path(
    post,
    path = "/admin/api/v1/modules",
    operation_id = "createModule",
    tag = "Modules",
    request_body = NewModule,
    responses(
        (status = 201, description = "The module", body = Module),
        (status = 409, description = "The module conflicts with the host or another module, is not allowed by the configuration, or needs consent (`accept`)", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn create<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let new: NewModule = request.json()?;
    let component = request.blobs.get(new.component).ok_or_else(|| {
        Rejection::bad_request(codes::INVALID_BASE64, "component must be in base64")
    })?;
    let digest = sha256_hex_of_bytes(component);
    let serving = app.module_manager.list().into_iter();
    let mut serving = serving
        .filter(|summary| matches!(summary.state, State::Serving))
        .filter(|summary| summary.digest.as_ref() == Some(&digest));
    let module = if let Some(summary) = serving.next() {
        Module::of(&app.module_manager.show(&summary.name).await?)
    } else {
        let component = NewComponent {
            bytes: component.clone(),
            name: new.name,
            artifact: None,
        };
        let installed = app
            .module_manager
            .install(app, &[component], new.accept, &request.origin())
            .await?;
        let installed = installed.into_iter().next();
        let installed = installed.ok_or_else(|| Failure::internal("no module was installed"))?;
        Module::of(&installed)
    };
    let path = format!("/admin/api/v1/modules/{}", module.name);
    request::created(&module, &module.version_tag(), &path)
}

/// Shows a module.
///
/// # Errors
/// Returns 404 if there is no such module.
#[utoipa::path(
    get,
    path = "/admin/api/v1/modules/{name}",
    operation_id = "readModule",
    tag = "Modules",
    params(
        ("name" = String, Path, description = "The name of the module"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` that the client has"),
    ),
    responses(
        (status = 200, description = "The module", body = Module),
        (status = 304, description = "The client has this version"),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn read<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let module = module(state.app(), request).await?;
    request::found(request, &module, &module.version_tag())
}

/// Enables or disables a module.
///
/// # Errors
/// Returns 404 if there is no such module, 409 if it cannot be loaded, and 412 if it has changed.
#[utoipa::path(
    patch,
    path = "/admin/api/v1/modules/{name}",
    operation_id = "updateModule",
    tag = "Modules",
    params(
        ("name" = String, Path, description = "The name of the module"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the module must have"),
    ),
    request_body = ChangedModule,
    responses(
        (status = 200, description = "The module", body = Module),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The module conflicts with the host or another module", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The module has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn update<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let change: ChangedModule = request::body(request, &READ_ONLY)?;
    let decide = |before: &Module| match change.enabled {
        Some(true) if !before.enabled => Some(StateChange::Enable),
        Some(false) if before.enabled => Some(StateChange::Disable),
        _ => None,
    };
    let after = change_state(app, request, decide).await?;
    request::object(&after, &after.version_tag())
}

/// Removes a module.
///
/// # Errors
/// Returns 404 if there is no such module, 409 if it is part of the configuration, and 412 if it
/// has changed.
#[utoipa::path(
    delete,
    path = "/admin/api/v1/modules/{name}",
    operation_id = "deleteModule",
    tag = "Modules",
    params(
        ("name" = String, Path, description = "The name of the module"),
        ("purge" = Option<bool>, Query, description = "Whether the data that the module stored is deleted too"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the module must have"),
    ),
    responses(
        (status = 200, description = "The module is removed", body = inline(Success)),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The module is part of the configuration", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The module has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn delete<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let purge = flag(request, "purge")?.unwrap_or(false);
    let remove = |_: &Module| Some(StateChange::Remove { purge });
    change_state(app, request, remove).await?;
    message::success()
}

/// Changes the state of the module whose name is in the path, if it has the version in `If-Match`.
async fn change_state(
    app: &App,
    request: &Request,
    decide: impl FnOnce(&Module) -> Option<StateChange> + Send,
) -> Result<Module, Rejection> {
    let decide = |report: &Report| {
        let before = Module::of(report);
        check_version(request, "module", &before.version_tag())?;
        Ok::<_, Rejection>(decide(&before))
    };
    let (name, origin) = (segment(request, "name"), request.origin());
    let changed = app.module_manager.change(app, name, decide, &origin);
    Ok(Module::of(&changed.await?))
}

/// Returns the module whose name is in the path.
async fn module(app: &App, request: &Request) -> Result<Module, Rejection> {
    let report = app.module_manager.show(segment(request, "name")).await?;
    Ok(Module::of(&report))
}
