//! The routes of the host and of the loaded modules.

use std::sync::Arc;

use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_runtime::manager::Router;
use latchmail_runtime::modules::Module;

use crate::app::{App, Pages};
use crate::openapi::info::ApiInfo;
use crate::route_group::RouteGroup;
use crate::router::RouteTable;
use crate::{admin, auth, exports, grants, holds, journal, oauth, openapi, profile, status};

impl Router for App {
    fn check_description(&self, module: &Arc<Module>) -> Result<(), StartError> {
        let info = ApiInfo::from_config(&self.config);
        openapi::check(&info, &[RouteGroup::<Self>::module(module)])
    }

    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError> {
        let groups = route_groups(&self.config, self.pages, modules)?;
        RouteTable::check(&ApiInfo::from_config(&self.config), groups)
    }

    fn prepare<'a>(
        &'a self,
        modules: &[Arc<Module>],
    ) -> Result<Box<dyn FnOnce() + Send + 'a>, StartError> {
        let groups = route_groups(&self.config, self.pages, modules)?;
        let table = RouteTable::build(&ApiInfo::from_config(&self.config), groups)?;
        Ok(Box::new(move || self.http.replace(table)))
    }
}

/// Returns the route groups of the host and its pages, followed by the route groups of the given
/// modules.
///
/// # Errors
/// Returns an error if an API description of the host cannot be serialized.
pub fn route_groups(
    config: &Config,
    pages: Pages,
    modules: &[Arc<Module>],
) -> Result<Vec<RouteGroup<App>>, StartError> {
    let mut groups = vec![
        status::route_group()?,
        auth::route_group()?,
        grants::route_group()?,
        profile::route_group()?,
        oauth::resource_route_group()?,
        exports::route_group()?,
        holds::route_group()?,
        journal::route_group()?,
    ];
    if config.admin.public_api {
        groups.push(admin::route_group("admin")?);
    }
    if oauth::is_on_main_listener(config) {
        groups.push(oauth::route_group()?);
    }
    if config.sign_in.uses_provider() {
        groups.push(oauth::single_sign_on_route_group()?);
    }
    groups.extend((pages.route_groups)(config)?);
    groups.extend(modules.iter().map(RouteGroup::module));
    Ok(groups)
}
