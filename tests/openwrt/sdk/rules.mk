# The few names of OpenWrt's build system that the recipes here use, so that tests can look at what
# they say and install what they install. TOPDIR is this directory.
INCLUDE_DIR := $(TOPDIR)/include
BUILD_DIR   ?= /nonexistent
SHELL       := /bin/bash

INSTALL_DIR  = install -d -m 755
INSTALL_BIN  = install -m 755
INSTALL_DATA = install -m 644
INSTALL_CONF = install -m 600
CP = cp -fpR
LN = ln -sf
