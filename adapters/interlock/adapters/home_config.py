"""The home's `bus.toml`, read whole. Commands read it as the supervisor does, without what that needs besides."""

import errno

from interlock.adapters.paths import Home
from interlock.adapters.small_files import read_regular
from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.toml_values import ConfigError

CONFIG_BYTES_MAX = 1024 * 1024


def read_config(home: Home) -> Config:
    """Read the home's `bus.toml`; without one every default holds. Raises ConfigError."""
    try:
        data = read_regular(str(home.config), CONFIG_BYTES_MAX)
        text = data.decode()
    except FileNotFoundError:
        return Config()
    except UnicodeDecodeError:
        raise ConfigError(f"{home.config}: not UTF-8: save it as UTF-8") from None
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise ConfigError(f"{home.config}: no regular file: move it away") from None
        if error.errno == errno.ELOOP:
            raise ConfigError(
                f"{home.config}: a symbolic link, and none is followed here: put the file there"
            ) from None
        raise ConfigError(f"{home.config}: cannot be read ({error.strerror})") from None
    if len(data) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{home.config}: more than {CONFIG_BYTES_MAX} bytes: that is no configuration")
    return parse_config(text, str(home.config))
