//! Compares a new version of a module with the serving version, before the new version is
//! installed. Read requests of clients are recorded with the results of their host calls, and
//! replayed into both versions. Nothing is written to the disk, and the result contains no values
//! of responses.
//!
//! The serving version is replayed twice, the second time with other random numbers. If the first
//! replay makes other host calls than the recorded request, the request is not compared. If the two
//! responses differ in a field, the field is not compared.

use std::collections::BTreeMap;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_directory::events::{Event, Kind};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::change::NewComponent;
use super::error::Error;
use super::router::Router;
use super::state::ModuleManager;
use crate::modules::{DifferenceKind, Differences, Manifest, Module, RecordedRequest, Route};

/// The maximum number of requests of a comparison.
pub const MAX_REQUESTS: u32 = 100_000;

/// The maximum duration of a comparison.
pub const MAX_TIME: Duration = Duration::from_hours(1);

/// The maximum number of differences in a result. Further ones are only counted.
const MAX_LISTED: usize = 500;

/// The reason why a module or a component cannot be compared.
const NOT_COMPARABLE: &str =
    "is a standard component or has only handlers, whose calls cannot be compared";

/// The result of a comparison.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleComparison)]
pub struct Comparison {
    /// The serving version.
    pub version: String,
    /// The version that was compared with the serving version.
    pub new_version: String,
    /// The number of compared requests.
    pub compared: u32,
    /// The number of requests with differences.
    pub different: u32,
    /// The number of requests that were not compared, because the serving version did not repeat
    /// its own host calls.
    pub not_repeatable: u32,
    /// The number of requests that were not recorded, because they were too large or too many.
    pub not_recorded: u64,
    /// The differences, by route.
    pub differences: Vec<FoundDifference>,
    /// The number of differences that are not listed.
    pub unlisted: usize,
    /// Fields that were not compared in some requests, because the serving version returns another
    /// value each time.
    pub unstable: Vec<UnstableField>,
}

/// A difference between the responses of two versions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModuleDifference)]
pub struct FoundDifference {
    /// The method and the path of the route.
    pub route: String,
    /// The part of the response, for example `status`, `header etag` or `messages[].subject`. A
    /// field whose name is not an identifier is `*`.
    pub place: String,
    /// The difference in the first such request. It has no values, only types and lengths.
    pub difference: String,
    /// The number of requests with this difference.
    pub requests: u32,
    /// The id of the first such request.
    pub request: String,
}

/// A part of responses that differs each time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModuleUnstableField)]
pub struct UnstableField {
    /// The method and the path of the route.
    pub route: String,
    /// The part of the response.
    pub place: String,
    /// The number of requests in which the part differed.
    pub requests: u32,
}

/// The differences and the unstable fields so far.
#[derive(Default)]
struct Findings {
    result: Comparison,
    /// The text, the number of requests and the id of the first request of each difference, by
    /// route, place and kind.
    differences: BTreeMap<(String, String, DifferenceKind), (String, u32, String)>,
    /// The number of requests, by route and place.
    unstable: BTreeMap<(String, String), u32>,
}

/// Compares a component with the serving version of the module `name`. `limits` are the number of
/// compared requests and the time after which the comparison ends. Calls of handlers are not
/// compared.
///
/// # Errors
/// Returns an [`Error`] if the component could not be installed as a version of the module, if no
/// version of the module serves, or if another comparison is running. Also returns an [`Error`] if
/// one of the versions is mounted, or has only handlers.
pub async fn compare(
    manager: &ModuleManager,
    router: &dyn Router,
    name: &str,
    component: &NewComponent,
    limits: (u32, Duration),
    origin: &Origin,
) -> Result<Comparison, Error> {
    let running = manager.comparison_lock.try_lock();
    let _running = running.map_err(|_| Error::Conflict("another comparison is running".into()))?;
    let current = manager.entries.get(name)?.serving;
    let current =
        current.ok_or_else(|| Error::Conflict(format!("module `{name}` is not serving")))?;
    if !current.is_comparable() {
        return Err(Error::Conflict(format!("module `{name}` {NOT_COMPARABLE}")));
    }
    let examined = manager.examine_all(std::slice::from_ref(component)).await?;
    let [examined] = &examined[..] else {
        return Err(Error::Invalid("the request contains no component".into()));
    };
    if examined.manifest.name != name {
        let other = &examined.manifest.name;
        return Err(Error::Invalid(format!(
            "the component is a version of module `{other}`, and not of `{name}`"
        )));
    }
    let policies = manager.policy_source.current()?;
    let new = manager
        .load_checked(router, examined, policies.require(name)?)
        .await?;
    if !new.is_comparable() {
        return Err(Error::Invalid(format!("the component {NOT_COMPARABLE}")));
    }
    let audit = Event::without_account(Kind::ModuleCompared, manager.clock.now());
    let audit = audit.about(name).detail(&examined.digest);
    manager.directory.events.record(audit, origin).await?;
    let (requests, time) = limits;
    let mut findings = Findings::default();
    let end = Instant::now() + time.min(MAX_TIME);
    let mut recorded = current.record();
    while findings.result.compared < requests {
        let Ok(Some(request)) = timeout_at(end, recorded.next()).await else {
            break;
        };
        let _permit = manager.loader.spare_permit().await;
        Box::pin(findings.compare(&current, &new, &request)).await;
    }
    findings.result.not_recorded = recorded.dropped();
    drop(recorded);
    Ok(findings.finish(&current, &new))
}

impl Findings {
    /// Replays a request into both versions, and adds the differences.
    async fn compare(&mut self, current: &Module, new: &Module, request: &RecordedRequest) {
        let ambient = request.ambient().clone();
        let Ok(other_ambient) = ambient.with_other_randomness() else {
            self.result.not_repeatable += 1;
            return;
        };
        let route = &request.route;
        let old = current.replay(route, &[], request, ambient.clone()).await;
        let (Ok(response), None, true) = (old.response, old.missing, old.left.is_empty()) else {
            self.result.not_repeatable += 1;
            return;
        };
        self.result.compared += 1;
        let again = current.replay(route, &[], request, other_ambient).await;
        // If the host calls depend on random numbers, the second replay shows nothing.
        let unstable = match (again.response, again.missing) {
            (Ok(again), None) => Differences::between(&response, &again),
            _ => Differences::default(),
        };
        let mut found = Differences::default();
        if let Some((new_route, names)) = route_of(new.manifest(), route) {
            let replayed = new.replay(new_route, &names, request, ambient).await;
            match (replayed.response, replayed.missing) {
                (_, Some(missing)) => {
                    let text = if missing.is_known {
                        "with other arguments or more often than the current version"
                    } else {
                        "which the current version does not call"
                    };
                    let place = format!("calls {}", missing.function);
                    found.add(&place, DifferenceKind::Calls, text);
                }
                (Err(reason), None) => found.add("response", DifferenceKind::Failure, reason),
                (Ok(new), None) => {
                    found = Differences::between(&response, &new);
                    found.remove(&unstable);
                    for function in replayed.left {
                        let place = format!("calls {function}");
                        let text = "less often than the current version";
                        found.add(&place, DifferenceKind::Calls, text);
                    }
                }
            }
            if new_route.access != route.access {
                let text = format!("{}, now {}", route.access, new_route.access);
                found.add("callers", DifferenceKind::Route, text);
            }
        } else {
            found.add("route", DifferenceKind::Route, "missing");
        }
        self.add(request, unstable, found);
    }

    fn add(&mut self, request: &RecordedRequest, unstable: Differences, found: Differences) {
        let route = format!("{} {}", request.route.method, request.route.path);
        for ((place, _), _) in unstable {
            let key = (route.clone(), place);
            if self.unstable.len() < MAX_LISTED || self.unstable.contains_key(&key) {
                *self.unstable.entry(key).or_default() += 1;
            }
        }
        if found.is_empty() {
            return;
        }
        self.result.different += 1;
        for ((place, kind), text) in found {
            let key = (route.clone(), place, kind);
            if self.differences.len() == MAX_LISTED && !self.differences.contains_key(&key) {
                self.result.unlisted += 1;
                continue;
            }
            let first = || (text, 0, request.id().to_owned());
            let (_, requests, _) = self.differences.entry(key).or_insert_with(first);
            *requests += 1;
        }
    }

    fn finish(self, current: &Module, new: &Module) -> Comparison {
        let differences = self.differences.into_iter();
        let unstable = self.unstable.into_iter();
        Comparison {
            version: current.manifest().version.clone(),
            new_version: new.manifest().version.clone(),
            differences: differences
                .map(
                    |((route, place, _), (difference, requests, request))| FoundDifference {
                        route,
                        place,
                        difference,
                        requests,
                        request,
                    },
                )
                .collect(),
            unstable: unstable
                .map(|((route, place), requests)| UnstableField {
                    route,
                    place,
                    requests,
                })
                .collect(),
            ..self.result
        }
    }
}

/// Returns the route of a new version that accepts the same requests as `route`, and the names of
/// the segments of its path. The names can differ from those of `route`.
fn route_of<'m>(manifest: &'m Manifest, route: &Route) -> Option<(&'m Route, Vec<String>)> {
    let name = |segment: &str| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.to_owned())
    };
    let matches = |new: &&Route| {
        let (old, new_path) = (route.path.split('/'), new.path.split('/'));
        new.method == route.method
            && old.clone().count() == new_path.clone().count()
            && old
                .zip(new_path)
                .all(|(old, new)| match (name(old), name(new)) {
                    (Some(_), Some(_)) => true,
                    _ => old == new,
                })
    };
    let found = manifest.routes.iter().find(matches)?;
    Some((found, found.path.split('/').filter_map(name).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing;

    #[test]
    fn a_route_is_found_by_its_path_without_the_names_of_segments() {
        let mut manifest = Manifest {
            name: "m".into(),
            version: "1.0.0".into(),
            routes: vec![
                testing::route("POST", "/a/{b}"),
                testing::route("GET", "/a/b"),
            ],
            description: serde_json::Value::Null,
            handlers: None,
        };
        let route = testing::route("GET", "/a/{id}");
        assert!(route_of(&manifest, &route).is_none());
        manifest.routes.push(testing::route("GET", "/a/{number}"));
        let (found, names) = route_of(&manifest, &route).unwrap();
        assert_eq!(
            (found.path.as_str(), &names[..]),
            ("/a/{number}", &["number".to_owned()][..])
        );
    }
}
